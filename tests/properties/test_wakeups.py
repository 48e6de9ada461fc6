"""A short search for parked pods that fit, and planted bugs that it must find."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyscheduler.api import ClusterEvent, Pod, QueueingHint
from pyscheduler.core.context import Context
from pyscheduler.intree import NodeResourcesFit, TaintToleration
from pyscheduler.intree.affinity.hints import AffinityHints
from pyscheduler.intree.volumes.hints import VolumeHints
from tests.properties import wakeups
from tests.properties.wakeup.story import play
from tests.properties.wakeups import WakeupSearch

Patch = pytest.MonkeyPatch


def test_no_feasible_pod_stays_parked() -> None:
    search = WakeupSearch(seed=7, start=0, events=2_000)
    assert search.run(processes=1) is None, "python -m tests.properties.wakeups --seed 7 --events 2000"
    assert search.looks > 1_000


def test_story_depends_on_seed_and_number_only() -> None:
    assert play(3, "", 14).lines == play(3, "", 14).lines != play(3, "", 15).lines
    assert play(3, "", 14).lines != play(4, "", 14).lines


def _skip(self: object, pod: Pod, event: ClusterEvent) -> QueueingHint:
    return QueueingHint.SKIP


def _miss_removed_taints(patch: Patch) -> None:
    patch.setattr(TaintToleration, "_taints_gone", _skip)


def _miss_larger_nodes(patch: Patch) -> None:
    patch.setattr(NodeResourcesFit, "_node_grew", _skip)


def _miss_freed_anti_affinity(patch: Patch) -> None:
    patch.setattr(AffinityHints, "_ends_anti_affinity", lambda *_: False)
    patch.setattr(AffinityHints, "_ends_existing_anti_affinity", lambda *_: False)


def _miss_new_volumes(patch: Patch) -> None:
    patch.setattr(VolumeHints, "volume_changed", _skip)


def _miss_freed_resources(patch: Patch) -> None:
    patch.setattr(Context, "place_freed", lambda self, pod, now, only=None: None)


@pytest.mark.parametrize(
    ("plant", "feature"),
    [
        (_miss_removed_taints, "taints"),
        (_miss_larger_nodes, "large"),
        pytest.param(_miss_freed_anti_affinity, "pod-affinity", marks=pytest.mark.slow),
        (_miss_new_volumes, "volumes"),
        (_miss_freed_resources, "preemption"),
    ],
)
def test_planted_bug_is_found(
    plant: Callable[[Patch], None], feature: str, monkeypatch: Patch, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(monkeypatch)
    assert wakeups.main(["--seed", "1", "--feature", feature, "--events", "20000", "--processes", "1"]) == 1
    lines = capsys.readouterr().out.splitlines()
    (story, *_) = [line for line in lines if line.startswith("story ")]
    assert "stays parked" in story
    assert lines[-1] == f"replay: {wakeups.replay_command(1, feature, int(story.split()[1]))}"
