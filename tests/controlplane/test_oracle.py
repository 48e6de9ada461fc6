"""The oracle evaluates documents with kube-scheduler's framework: one test per kind of result."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.build import ToolchainMissing, binaries, cache_folder

Manifest = dict[str, Any]
Evaluate = Callable[..., list[Any]]


@pytest.fixture(scope="module")
def oracle(request: pytest.FixtureRequest) -> Path:
    """The program; skipped if it is not built and the real control plane was not requested."""
    is_requested = request.config.getoption("--control-plane", default="embedded") == "real"
    if not is_requested and not os.access(cache_folder(["oracle"]) / "oracle", os.X_OK):
        pytest.skip("needs the oracle: python -m tests.controlplane.build oracle")
    try:
        return binaries(["oracle"]) / "oracle"
    except ToolchainMissing as error:
        if os.environ.get("CI", "").lower() in {"true", "1"}:
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


@pytest.fixture
def evaluate(oracle: Path) -> Evaluate:
    """Run the oracle on lines or documents and return its output."""

    def run(*documents: Manifest | str) -> list[Any]:
        lines = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in documents)
        done = subprocess.run([oracle], input=lines, capture_output=True, text=True, check=True, timeout=60)
        assert done.stderr == ""
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def node(name: str, cpu: str = "4") -> Manifest:
    """Return a node with room for 110 pods."""
    room = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": room}}


def pod(name: str, cpu: str, node_name: str = "", priority: int = 0) -> Manifest:
    """Return a pod of one container; one with a node runs since the start of the year."""
    container = {"name": "c", "image": "app", "resources": {"requests": {"cpu": cpu}}}
    spec = {
        "containers": [container],
        "priority": priority,
        "nodeName": node_name,
        "schedulerName": "default-scheduler",
    }
    status = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"} if node_name else {"phase": "Pending"}
    metadata = {"name": name, "namespace": "default", "uid": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def test_pod_that_fits_has_scores(evaluate: Evaluate) -> None:
    nodes = [node("empty"), node("small", "2"), node("full")]
    [report] = evaluate({"id": "fits", "objects": [*nodes, pod("p", "1"), pod("q", "4", "full")]})

    assert (report["id"], report["pod"]) == ("fits", "default/p")
    assert report["prefilter"] == {"status": "Success", "plugin": "", "reasons": [], "nodeNames": None}
    assert report["nodes"]["empty"] == {"feasible": True, "plugin": "", "code": "Success", "reasons": []}
    assert report["nodes"]["full"] == {
        "feasible": False,
        "plugin": "NodeResourcesFit",
        "code": "Unschedulable",
        "reasons": ["Insufficient cpu"],
    }
    assert report["scores"]["TaintToleration"] == {"empty": 300, "small": 300}
    assert report["weights"]["TaintToleration"] == 3
    assert report["total"] == {
        name: sum(points[name] for points in report["scores"].values()) for name in ("empty", "small")
    }
    assert report["choice"] == ["empty"]
    assert "preemption" not in report


def test_pod_that_fits_nowhere_has_the_full_message(evaluate: Evaluate) -> None:
    [report] = evaluate({"id": 1, "objects": [node("a"), node("b"), pod("p", "5")]})

    assert report["filter_message"] == "0/2 nodes are available: 2 Insufficient cpu."
    assert report["fit_error_message"] == (
        "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: 2"
        " Preemption is not helpful for scheduling."
    )
    assert report["preemption"]["status"] == "Unschedulable"
    assert report["preemption"]["candidates"] == {}


def test_preemption_lists_all_candidates_and_does_not_affect_other_pods(evaluate: Evaluate) -> None:
    running = [pod("v1", "2", "a"), pod("v2", "2", "a"), pod("v3", "4", "b"), pod("v4", "4", "c", priority=9)]
    waiting = [pod("p", "4", priority=10), pod("q", "3", priority=5)]
    first, second = evaluate({"id": 1, "objects": [node("a"), node("b"), node("c"), *running, *waiting]})

    assert first["preemption"] == {
        "status": "Success",
        "message": "preemption: found a potential placement for pod on node b, preempting 1 victims",
        "nominatedNode": "b",
        "victims": ["default/v3"],
        "ties": ["b"],
        "candidates": {
            "a": {"victims": ["default/v1", "default/v2"], "pdbViolations": 0},
            "b": {"victims": ["default/v3"], "pdbViolations": 0},
            "c": {"victims": ["default/v4"], "pdbViolations": 0},
        },
    }
    assert (second["pod"], sorted(second["preemption"]["candidates"])) == ("default/q", ["a", "b"])


def test_sequence_builds_on_earlier_placements(evaluate: Evaluate) -> None:
    objects = [node("a", "2"), node("b", "3"), pod("p", "2"), pod("q", "2"), pod("r", "3", priority=1), pod("s", "3")]
    [report] = evaluate({"id": 1, "objects": objects, "sequence": ["default/p", "default/q", "default/r", "default/s"]})

    assert [(attempt["pod"], attempt["node"]) for attempt in report["attempts"]] == [
        ("default/p", "b"),
        ("default/q", "a"),
        ("default/r", ""),
        ("default/r", "b"),
        ("default/s", ""),
    ]
    failed = report["attempts"][2]
    assert (failed["nominatedNode"], failed["victims"]) == ("b", ["default/p"])
    assert report["attempts"][4]["message"].startswith("0/2 nodes are available: 2 Insufficient cpu.")


def test_gated_pod_is_not_evaluated(evaluate: Evaluate) -> None:
    gated = pod("p", "1")
    gated["spec"]["schedulingGates"] = [{"name": "quota"}]

    [report] = evaluate({"id": 1, "objects": [node("a"), gated]})

    reasons = ["waiting for scheduling gates: [quota]"]
    rejection = {"status": "UnschedulableAndUnresolvable", "plugin": "SchedulingGates", "reasons": reasons}
    assert report == {"id": 1, "pod": "default/p", "preenqueue": rejection}


def test_invalid_line_is_reported_and_the_next_one_read(evaluate: Evaluate) -> None:
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profile": []}
    broken, object_, strict, fine = evaluate(
        "{broken",
        {"id": "object", "objects": [{"kind": 3}]},
        {"id": "strict", "objects": [], "config": config},
        {"id": "fine", "objects": [node("a"), pod("p", "1")]},
    )

    assert (broken["id"], broken["error"][:17]) == (None, "invalid document:")
    assert (object_["id"], object_["error"][:11]) == ("object", "objects[0]:")
    assert (strict["id"], 'unknown field "profile"' in strict["error"]) == ("strict", True)
    assert fine["choice"] == ["a"]
