"""Bindings are counted once, at the moment they are seen; what goes wrong is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from bench.watch import BindWatch, Unfinished
from tests.e2e.client import ApiClient


@pytest.fixture
def watch(tmp_path: Path) -> BindWatch:
    """A watch that is not opened: lines are given to it by hand."""
    kubeconfig = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c"}}],
        "current-context": "c",
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    return BindWatch(ApiClient(tmp_path / "kubeconfig"), "ours", expected=2, version="1")


def line(pod: str, node: str | None, kind: str = "MODIFIED") -> bytes:
    """An event of a watch, with a field that nobody asked for."""
    spec = {"nodeName": node, "priority": 0} if node else {"priority": 0}
    return json.dumps({"type": kind, "object": {"kind": "Pod", "metadata": {"name": pod}, "spec": spec}}).encode()


def test_first_and_last_binding_are_timed(watch: BindWatch) -> None:
    watch.take(line("a", None), 1.0)
    watch.take(line("a", "node-1"), 2.0)
    watch.take(line("b", "node-2"), 5.0)

    assert watch.placed == {"a": "node-1", "b": "node-2"}
    assert (watch.first, watch.last) == (2.0, 5.0)


def test_a_pod_counts_once(watch: BindWatch) -> None:
    watch.take(line("a", "node-1"), 2.0)
    watch.take(line("a", "node-1"), 9.0)

    assert (len(watch.placed), watch.last) == (1, 2.0)


def test_a_watch_that_fails_says_so(watch: BindWatch) -> None:
    expired = json.dumps({"type": "ERROR", "object": {"kind": "Status", "metadata": {}, "code": 410}}).encode()

    with pytest.raises(Unfinished, match=r"the watch failed: .*410"):
        watch.take(expired, 1.0)
