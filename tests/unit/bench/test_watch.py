"""Bindings are counted and timed once, when the watch delivers them; watch errors are raised."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from bench import proc
from bench.watch import BindWatch, Unfinished, WaitLimit
from tests.e2e.client import ApiClient


@pytest.fixture
def watch(tmp_path: Path) -> BindWatch:
    """A watch that is not opened: tests pass lines to it."""
    kubeconfig = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c"}}],
        "current-context": "c",
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    return BindWatch(ApiClient(tmp_path / "kubeconfig"), "ours", frozenset({"ns/a", "ns/b"}))


def line(pod: str, node: str | None, *conditions: str) -> bytes:
    """Return an event of a watch, with a field that is not decoded."""
    spec = {"nodeName": node, "priority": 0} if node else {"priority": 0}
    status = {"conditions": [{"type": condition, "status": "False"} for condition in conditions]}
    found = {"kind": "Pod", "metadata": {"namespace": "ns", "name": pod}, "spec": spec, "status": status}
    return json.dumps({"type": "MODIFIED", "object": found}).encode()


def wait_limit(at: float = 60.0, alive: bool = True) -> WaitLimit:
    """Return a limit in `at` seconds."""
    return WaitLimit(proc.now() + at, lambda: alive)


def test_first_and_last_binding_are_timed(watch: BindWatch) -> None:
    watch.take(line("a", None), 1.0)
    watch.take(line("a", "node-1"), 2.0)
    watch.take(line("b", "node-2"), 5.0)

    assert watch.placed == {"ns/a": "node-1", "ns/b": "node-2"}
    assert (watch.first, watch.last, watch.left) == (2.0, 5.0, 0)


def test_callback_runs_at_the_first_and_the_last_binding(watch: BindWatch) -> None:
    called: list[int] = []
    watch.at_end = lambda: called.append(watch.left)

    watch.take(line("c", "node-1"), 1.0)  # which is not measured
    watch.take(line("a", "node-1"), 2.0)
    watch.take(line("a", "node-1", "Ready"), 3.0)
    watch.take(line("b", "node-2"), 5.0)

    assert called == [1, 0]


def test_pods_that_are_not_measured_are_recorded_but_not_timed(watch: BindWatch) -> None:
    watch.take(line("other", "node-1"), 1.0)

    assert watch.placed == {"ns/other": "node-1"}
    assert (watch.first, watch.left) == (0.0, 2)


def test_pod_scheduled_condition_counts_as_an_attempt(watch: BindWatch) -> None:
    watch.take(line("a", None), 1.0)
    watch.take(line("b", None, "PodScheduled"), 1.0)

    assert watch.tried == {"ns/b"}


def test_pod_counts_once(watch: BindWatch) -> None:
    watch.take(line("a", "node-1"), 2.0)
    watch.take(line("a", "node-1"), 9.0)

    assert (len(watch.placed), watch.last, watch.left) == (1, 2.0, 1)


def failure(**status: object) -> bytes:
    """Return the ERROR event at the end of a failed watch."""
    found = {"kind": "Status", "metadata": {}, "status": "Failure", **status}
    return json.dumps({"type": "ERROR", "object": found}).encode()


def test_failed_watch_raises(watch: BindWatch) -> None:
    with pytest.raises(Unfinished, match=r"the watch failed: .*410"):
        watch.take(failure(code=410), 1.0)


def test_watch_error_with_retry_after_is_ignored(watch: BindWatch) -> None:
    late = {"causes": [{"reason": "ResourceVersionTooLarge"}], "retryAfterSeconds": 1}
    watch.take(failure(code=504, details=late), 1.0)
    watch.take(line("a", "node-1"), 2.0)

    assert watch.placed == {"ns/a": "node-1"}
