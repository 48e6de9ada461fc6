"""Stories of the test kit itself: plugins that act do real I/O on real time, and wait on virtual time."""

from __future__ import annotations

import asyncio
import gc
import socketserver
import sys
import threading
import warnings
from collections.abc import Iterator

import pytest

from pyscheduler.core.commands import Bind
from pyscheduler.testing import Harness, node, pod
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
    """Admits names that begin with `good`."""

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


def registered(port: str) -> Harness:
    harness = Harness(config("Registers"))
    harness.add(node("n1"), pod("good-one").label("port", port), pod("bad-one").label("port", port))
    harness.run()
    return harness


def test_pre_bind_plugin_does_real_io(port: str) -> None:
    harness = registered(port)
    assert harness.assignments == {"good-one": "n1"}
    assert "the registry answered no" in harness.pending_message("bad-one")


async def test_pre_bind_plugin_does_real_io_in_an_async_test(port: str) -> None:
    harness = registered(port)
    await asyncio.sleep(0)
    assert harness.assignments == {"good-one": "n1"}


def test_plugin_that_cannot_connect_fails_its_pod_by_name() -> None:
    harness = registered("1")
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
    assert harness.handle.objects(LICENCE)["", "cad"]["spec"] == {"tokens": 0}


def test_objects_that_are_not_there_are_not_found() -> None:
    harness = Harness(config("TakesToken"))
    harness.add_object(LICENCE, licence(1))
    harness.add(node("n1"), pod("a").label("licence", "cam"))
    harness.run()
    assert harness.pending_message("a") == 'running PreBind plugin "TakesToken": licences "cam" not found'


def test_pod_that_is_deleted_while_its_plugin_waits_is_let_go_of() -> None:
    harness = Harness(config("TakesToken"))
    harness.add(node("n1"))
    harness.add_object(LICENCE, licence(0))
    harness.add(pod("a").label("licence", "cad"))
    harness.run()
    harness.delete_pod("a")
    harness.add_object(LICENCE, licence(1))
    harness.advance(10)
    assert harness.handle.objects(LICENCE)["", "cad"]["spec"] == {"tokens": 1}


def test_advance_tries_pods_that_have_been_added_before_time_passes() -> None:
    harness = Harness()
    harness.complete_bindings = False
    harness.add(node("n1"), pod("a"))
    began = harness.now
    harness.advance(60)
    [bind] = [command for command in harness.commands if isinstance(command, Bind)]
    assert bind.cycle.now == began


def test_harness_that_is_dropped_with_a_plugin_at_work_leaves_nothing_behind(
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


async def test_a_harness_that_is_collected_while_another_loop_runs_ends_without_a_complaint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    complaints: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)
    harness = Harness(config("Slow"))
    harness.add(node("n1"), pod("waits").label("slow", "yes"))
    harness.run()
    assert harness.assignments == {}
    del harness
    gc.collect()
    assert complaints == []
