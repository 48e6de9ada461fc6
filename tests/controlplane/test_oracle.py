"""The oracle answers documents with the real framework: one of each kind of answer, so that it can be believed."""

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
Ask = Callable[..., list[Any]]


@pytest.fixture(scope="module")
def oracle(request: pytest.FixtureRequest) -> Path:
    """The program; a skip where it is not built and nobody asked for minutes of building."""
    asked = request.config.getoption("--control-plane", default="embedded") == "real"
    if not asked and not os.access(cache_folder(["oracle"]) / "oracle", os.X_OK):
        pytest.skip("needs the oracle: python -m tests.controlplane.build oracle")
    try:
        return binaries(["oracle"]) / "oracle"
    except ToolchainMissing as error:
        if os.environ.get("CI", "").lower() in {"true", "1"}:
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


@pytest.fixture
def ask(oracle: Path) -> Ask:
    """Gives lines or documents to the oracle, and its answers back."""

    def answers(*documents: Manifest | str) -> list[Any]:
        lines = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in documents)
        done = subprocess.run([oracle], input=lines, capture_output=True, text=True, check=True, timeout=60)
        assert done.stderr == ""
        return [json.loads(line) for line in done.stdout.splitlines()]

    return answers


def node(name: str, cpu: str = "4") -> Manifest:
    """A node with room for 110 pods."""
    room = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": room}}


def pod(name: str, cpu: str, node_name: str = "", priority: int = 0) -> Manifest:
    """A pod of one container; one with a node runs since the start of the year."""
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


def test_a_pod_that_fits_has_scores(ask: Ask) -> None:
    nodes = [node("empty"), node("small", "2"), node("full")]
    [said] = ask({"id": "fits", "objects": [*nodes, pod("p", "1"), pod("q", "4", "full")]})

    assert (said["id"], said["pod"]) == ("fits", "default/p")
    assert said["prefilter"] == {"status": "Success", "plugin": "", "reasons": [], "nodeNames": None}
    assert said["nodes"]["empty"] == {"feasible": True, "plugin": "", "code": "Success", "reasons": []}
    assert said["nodes"]["full"] == {
        "feasible": False,
        "plugin": "NodeResourcesFit",
        "code": "Unschedulable",
        "reasons": ["Insufficient cpu"],
    }
    assert said["scores"]["TaintToleration"] == {"empty": 300, "small": 300}
    assert said["weights"]["TaintToleration"] == 3
    assert said["total"] == {
        name: sum(points[name] for points in said["scores"].values()) for name in ("empty", "small")
    }
    assert said["choice"] == ["empty"]
    assert "preemption" not in said


def test_a_pod_that_fits_nowhere_is_told_in_full(ask: Ask) -> None:
    [said] = ask({"id": 1, "objects": [node("a"), node("b"), pod("p", "5")]})

    assert said["filter_message"] == "0/2 nodes are available: 2 Insufficient cpu."
    assert said["fit_error_message"] == (
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate,"
        " preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )
    assert said["preemption"]["status"] == "Unschedulable"
    assert said["preemption"]["candidates"] == {}


def test_preemption_has_all_candidates_and_leaves_no_trace(ask: Ask) -> None:
    running = [pod("v1", "2", "a"), pod("v2", "2", "a"), pod("v3", "4", "b"), pod("v4", "4", "c", priority=9)]
    waiting = [pod("p", "4", priority=10), pod("q", "3", priority=5)]
    first, second = ask({"id": 1, "objects": [node("a"), node("b"), node("c"), *running, *waiting]})

    assert first["preemption"] == {
        "status": "Success",
        "message": "",
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


def test_a_sequence_builds_on_what_was_placed(ask: Ask) -> None:
    objects = [node("a", "2"), node("b", "3"), pod("p", "2"), pod("q", "2"), pod("r", "3", priority=1), pod("s", "3")]
    [said] = ask({"id": 1, "objects": objects, "sequence": ["default/p", "default/q", "default/r", "default/s"]})

    assert [(attempt["pod"], attempt["node"]) for attempt in said["attempts"]] == [
        ("default/p", "b"),
        ("default/q", "a"),
        ("default/r", ""),
        ("default/r", "b"),
        ("default/s", ""),
    ]
    failed = said["attempts"][2]
    assert (failed["nominatedNode"], failed["victims"]) == ("b", ["default/p"])
    assert said["attempts"][4]["message"].startswith("0/2 nodes are available: 2 Insufficient cpu.")


def test_a_gated_pod_is_not_evaluated(ask: Ask) -> None:
    gated = pod("p", "1")
    gated["spec"]["schedulingGates"] = [{"name": "quota"}]

    [said] = ask({"id": 1, "objects": [node("a"), gated]})

    reasons = ["waiting for scheduling gates: [quota]"]
    refusal = {"status": "UnschedulableAndUnresolvable", "plugin": "SchedulingGates", "reasons": reasons}
    assert said == {"id": 1, "pod": "default/p", "preenqueue": refusal}


def test_a_bad_line_is_answered_and_the_next_one_read(ask: Ask) -> None:
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profile": []}
    broken, object_, strict, fine = ask(
        "{broken",
        {"id": "object", "objects": [{"kind": 3}]},
        {"id": "strict", "objects": [], "config": config},
        {"id": "fine", "objects": [node("a"), pod("p", "1")]},
    )

    assert (broken["id"], broken["error"][:24]) == (None, "the line is no document:")
    assert (object_["id"], object_["error"][:11]) == ("object", "objects[0]:")
    assert (strict["id"], 'unknown field "profile"' in strict["error"]) == ("strict", True)
    assert fine["choice"] == ["a"]
