"""Test harness: binding plugins do real I/O in real time, and sleep in virtual time."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import socketserver
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from pyscheduler.core.commands import Bind
from pyscheduler.testing import Harness, node, pod
from pyscheduler.testing.binding_cycles import MAX_OPEN_LOOPS
from tests.scenarios.fakes import LICENCE


def config(name: str) -> str:
    return f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {{multiPoint: {{enabled: [{{name: "tests.scenarios.fakes:{name}"}}]}}}}
"""


class Registry(socketserver.StreamRequestHandler):
    """TCP server that accepts names with the prefix `good`."""

    def handle(self) -> None:
        name = self.rfile.readline().decode().strip()
        self.wfile.write(b"welcome\n" if name.startswith("good") else b"no\n")


@pytest.fixture
def port() -> Iterator[str]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Registry) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield str(server.server_address[1])
        server.shutdown()
        thread.join()


def run_registration(port: str) -> Harness:
    harness = Harness(config("Registers"))
    harness.add(node("n1"), pod("good-one").label("port", port), pod("bad-one").label("port", port))
    harness.run()
    return harness


def test_pre_bind_plugin_does_real_io(port: str) -> None:
    harness = run_registration(port)
    assert harness.assignments == {"good-one": "n1"}
    assert "the registry answered no" in harness.pending_message("bad-one")


async def test_pre_bind_plugin_does_real_io_in_an_async_test(port: str) -> None:
    harness = run_registration(port)
    await asyncio.sleep(0)
    assert harness.assignments == {"good-one": "n1"}


def test_attempt_fails_with_the_plugins_name_when_it_cannot_connect() -> None:
    harness = run_registration("1")
    assert harness.assignments == {}
    assert harness.pending_message("good-one").startswith(
        'running PreBind plugin "Registers": ConnectionRefusedError: '
    )


def licence(tokens: int) -> dict[str, object]:
    return {"metadata": {"name": "cad"}, "spec": {"tokens": tokens}}


def test_plugin_polls_the_api_server_on_virtual_time() -> None:
    harness = Harness(config("TakesToken"))
    harness.add(node("n1"))
    harness.add_object(LICENCE, licence(0))
    harness.add(pod("a").label("licence", "cad"))
    harness.run()
    harness.advance(3)
    assert harness.assignments == {}
    harness.add_object(LICENCE, licence(1))
    harness.advance(2)
    assert harness.assignments == {"a": "n1"}
    assert harness.handle.objects[LICENCE]["", "cad"]["spec"] == {"tokens": 0}


def test_missing_objects_are_not_found() -> None:
    harness = Harness(config("TakesToken"))
    harness.add_object(LICENCE, licence(1))
    harness.add(node("n1"), pod("a").label("licence", "cam"))
    harness.run()
    assert harness.pending_message("a") == 'running PreBind plugin "TakesToken": licences "cam" not found'


def test_plugin_call_is_cancelled_when_its_pod_is_deleted() -> None:
    harness = Harness(config("TakesToken"))
    harness.add(node("n1"))
    harness.add_object(LICENCE, licence(0))
    harness.add(pod("a").label("licence", "cad"))
    harness.run()
    harness.delete_pod("a")
    harness.add_object(LICENCE, licence(1))
    harness.advance(10)
    assert harness.handle.objects[LICENCE]["", "cad"]["spec"] == {"tokens": 1}


def test_advance_schedules_added_pods_before_time_passes() -> None:
    harness = Harness()
    harness.complete_bindings = False
    harness.add(node("n1"), pod("a"))
    began = harness.now
    harness.advance(60)
    [bind] = [command for command in harness.commands if isinstance(command, Bind)]
    assert bind.cycle.now == began


def test_closing_the_harness_during_a_plugin_call_gives_no_warnings(
    recwarn: pytest.WarningsRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    warnings.simplefilter("always")
    harness = Harness(config("TakesToken"))
    harness.add(node("n1"))
    harness.add_object(LICENCE, licence(0))
    harness.add(pod("a").label("licence", "cad"))
    harness.run()
    harness.close()
    assert not [w for w in recwarn if issubclass(w.category, ResourceWarning | RuntimeWarning)]
    assert not caplog.records


async def test_collecting_a_harness_while_another_loop_runs_raises_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gc.collect()  # what earlier tests left
    errors: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", errors.append)
    harness = Harness(config("Slow"))
    harness.add(node("n1"), pod("waits").label("slow", "yes"))
    harness.run()
    assert harness.assignments == {}
    del harness
    gc.collect()
    assert errors == []


def test_harnesses_that_are_not_closed_do_not_use_up_the_file_descriptors() -> None:
    gc.collect()
    before, most = len(os.listdir("/dev/fd")), 0
    gc.disable()  # full collections are rare in a process with many objects
    try:
        for _ in range(3 * MAX_OPEN_LOOPS):
            harness = Harness()
            harness.add(node("n1"), pod("a"))
            harness.run()
            most = max(most, len(os.listdir("/dev/fd")))
    finally:
        gc.enable()
    assert harness.assignments == {"a": "n1"}
    assert most - before <= 3 * (MAX_OPEN_LOOPS + 1)


@pytest.mark.parametrize("value", [pod("a").manifest, [pod("a")], "a", pod])
def test_add_rejects_values_that_are_not_builders(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^add takes pod\(\) and node\(\) builders, not \w+; apply takes manifests$"):
        Harness().add(value)


@pytest.mark.parametrize("seconds", [-1.0, math.nan])
def test_time_does_not_go_backwards(seconds: float) -> None:
    with pytest.raises(ValueError, match=f"time cannot advance by {seconds} seconds"):
        Harness().advance(seconds)
