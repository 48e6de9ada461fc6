"""Workload files: the suite is valid, and mistakes are reported with their place."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.program import compiled
from bench.suite import Case, SuiteError, load, select

POD = "{kind: Pod, spec: {containers: [{name: a, image: b}]}}"
MEASURED = f"{{opcode: createPods, count: 2, podTemplate: {POD}, collectMetrics: true}}"


def written(folder: Path, *ops: str, params: str = "{}", case: str = "") -> Path:
    """Write a file with one test case of these operations."""
    lines = ["- name: Case", *([f"  {case}"] if case else []), "  workloadTemplate:", *(f"  - {op}" for op in ops)]
    path = folder / "case.yaml"
    path.write_text("\n".join([*lines, f"  workloads: [{{name: small, labels: [short], params: {params}}}]"]))
    return path


SUITE = load()


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in SUITE])
def test_workload_of_the_suite_compiles(case: Case) -> None:
    program = compiled(case)

    assert program.measured
    assert program.nodes
    assert case.workload.labels


def test_workload_names_are_unique() -> None:
    assert len({case.name for case in SUITE}) == len(SUITE)


def test_every_test_case_has_a_small_size_except_those_about_the_start() -> None:
    small = {case.test.name for case in SUITE if {"short", "start", "latency", "groups"} & set(case.workload.labels)}

    assert small == {case.test.name for case in SUITE}


@pytest.mark.parametrize(
    ("op", "message"),
    [
        pytest.param(
            "{opcode: createNode}", r"\$\[0\].workloadTemplate\[0\].opcode: Invalid value 'createNode'", id="op"
        ),
        pytest.param(
            "{opcode: sleep, duration: 2s, how: deep}",
            r"\$\[0\].workloadTemplate\[0\]: Object contains unknown field `how`",
            id="field",
        ),
        pytest.param(
            "{opcode: createNodes, countParam: $many}",
            r"\$\[0\].workloads\[0\].params: workloadTemplate uses \$many, which is not given",
            id="missing parameter",
        ),
        pytest.param(
            "{opcode: churn, mode: shake}",
            r"\$\[0\].workloadTemplate\[0\].mode: Invalid enum value 'shake'",
            id="mode",
        ),
    ],
)
def test_unknown_vocabulary_is_reported_with_its_place(tmp_path: Path, op: str, message: str) -> None:
    with pytest.raises(SuiteError, match=f"case.yaml: {message}"):
        load([written(tmp_path, op, MEASURED)])


def test_unused_parameter_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match=r"workloads\[0\].params: pods is not used"):
        load([written(tmp_path, MEASURED, params="{pods: 3}")])


@pytest.mark.parametrize(
    ("op", "message"),
    [
        pytest.param("{opcode: createNodes}", "give either count or countParam", id="no count"),
        pytest.param(
            "{opcode: createPods, count: 1, podTemplatePath: nowhere.yaml}",
            "nowhere.yaml: .*No such file",
            id="no file",
        ),
        pytest.param("{opcode: createPods, count: 1}", "a template, or a path to one, is required", id="no template"),
        pytest.param(
            f"{{opcode: createPods, count: 1, podTemplate: {POD}}}",
            "bound pods need nodes that are created before them",
            id="no nodes",
        ),
        pytest.param(
            "{opcode: createNodes, count: 2, nodeTemplate: {kind: Node, metadata: {name: one}}}",
            "2 objects have the same name one",
            id="one name",
        ),
        pytest.param(
            "{opcode: createAny, template: {kind: Lease}}",
            "a template of kind 'Lease'; supported are CSINode, DeviceClass",
            id="kind",
        ),
        pytest.param("{opcode: sleep, duration: 2 hours}", 'duration: "2 hours" is not a duration', id="duration"),
        pytest.param("{opcode: churn, mode: recreate}", "number: mode recreate needs a number", id="recreate"),
    ],
)
def test_invalid_operation_is_reported_with_its_place(tmp_path: Path, op: str, message: str) -> None:
    [case] = load([written(tmp_path, op, MEASURED)])

    with pytest.raises(SuiteError, match=rf"case.yaml: \$\[0\].workloadTemplate\[0\]\.?:? ?{message}"):
        compiled(case)


def test_workload_without_measured_pods_is_an_error(tmp_path: Path) -> None:
    [case] = load([written(tmp_path, "{opcode: createNodes, count: 1}")])

    with pytest.raises(SuiteError, match="no pods are measured"):
        compiled(case)


@pytest.mark.parametrize(
    ("names", "labels", "expected"),
    [
        (["TopologySpreading"], ["short"], ["TopologySpreading/500Nodes"]),
        (["TopologySpreading/5000Nodes"], [], ["TopologySpreading/5000Nodes"]),
        (["Preemption*/500Nodes"], [], [f"Preemption{kind}/500Nodes" for kind in ("Basic", "PVs", "Async")]),
        ([], ["start"], ["ColdStart/5000Nodes_100000Pods", "Memory/5000Nodes_150000Pods"]),
    ],
)
def test_workloads_are_selected_by_name_and_label(names: list[str], labels: list[str], expected: list[str]) -> None:
    assert [case.name for case in select(SUITE, names, labels)] == expected


@pytest.mark.parametrize(
    ("names", "labels", "message"),
    [
        (["Nonsense"], [], "there is no workload Nonsense; use SchedulingPodAntiAffinity, "),
        ([], ["huge"], "no workload has the label huge; use goal, groups, large, latency, performance, short, start"),
        (["ColdStart"], ["short"], "none of ColdStart has the label short"),
    ],
)
def test_selection_that_matches_nothing_is_an_error(names: list[str], labels: list[str], message: str) -> None:
    with pytest.raises(SuiteError, match=message):
        select(SUITE, names, labels)
