"""Replay of inputs that are no events: responses to PreBind plugins, and the clock of attempts for large pods."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from types import coroutine

import pytest

from pyscheduler.api import ApiError, ApiWriter, Cycle, FilterPlugin, NodeInfo, Pod, PreBindPlugin, Reads, Rejection
from pyscheduler.api.cycle import TIME_LIMIT
from pyscheduler.api.pod import LARGE
from pyscheduler.core.instrument import Instrument
from pyscheduler.shell.recording.replay import Replay
from pyscheduler.testing import Harness, node, pod
from tests.properties.recorded import MemoryRecording, first_difference, recorded_harnesses

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {{multiPoint: {{enabled: [{{name: "tests.unit.shell.test_replay:{plugin}"}}]}}}}
"""


class ClosedAfterOne(FilterPlugin, PreBindPlugin):
    """Rejects all nodes once the PreBind of a pod has got as far as its API calls let it."""

    name = "ClosedAfterOne"
    reads = Reads.EVERYTHING
    state = "open"

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        return None if self.state == "open" else Rejection(f"closed: {self.state}")

    async def pre_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> Rejection | None:
        await api.sleep(1.0)
        found = await api.get("/api/v1/namespaces/default/configmaps/a")
        try:
            await api.merge("/api/v1/namespaces/default/configmaps/a", {})
        except ApiError as error:
            self.state = f"{len(found)} object, {error}, at {api.timestamp()}"
        return None


@coroutine
def _other_awaitable() -> Iterator[None]:
    yield


class AwaitsOther(PreBindPlugin):
    """Awaits what a replay cannot resume."""

    name = "AwaitsOther"

    async def pre_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> Rejection | None:
        await _other_awaitable()
        return None


def recording_of(plugin: str) -> MemoryRecording:
    """Record two pods, one placed after the other."""
    with recorded_harnesses() as recordings:
        harness = Harness(CONFIG.format(plugin=plugin))
        harness.patch_error = lambda _: "read-only"
        harness.add(node("n1"), pod("a"))
        harness.advance(5.0)
        harness.add(pod("b"))
        harness.advance(5.0)
    return recordings[0]


def test_pre_bind_plugin_has_the_recorded_responses() -> None:
    recording = recording_of("ClosedAfterOne")
    assert b"closed: 1 object, read-only, at " in b"".join(recording.data)
    assert first_difference(recording.replay()) is None


def test_difference_is_found_without_the_pre_bind_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = recording_of("ClosedAfterOne")
    monkeypatch.setattr(Replay, "_step_pre_bind", lambda *_: None)
    assert first_difference(recording.replay()) is not None


def test_pre_bind_plugin_that_awaits_other_things_is_named() -> None:
    recording = recording_of("AwaitsOther")
    replay = recording.replay()
    assert first_difference(replay) is None
    assert [*replay.unreplayed_plugins] == ["AwaitsOther"]


def test_time_limit_of_a_large_pod_is_replayed() -> None:
    instrument, readings = Instrument(), count()
    instrument.timer = lambda: next(readings) * TIME_LIMIT / 2
    with recorded_harnesses() as recordings:
        harness = Harness(instrument=instrument)
        harness.add(node("n1"), pod("heavy").annotation("a", "x" * (LARGE + 1)))
        harness.run()
    assert harness.assignments == {}
    assert first_difference(recordings[0].replay()) is None
