"""The comparison reports differences, names the right plugin, and allows kube-scheduler's random choices."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.compare import compare, merge_attempts, merge_pods
from tests.conformance.coverage import Coverage
from tests.conformance.generator import Case

FITS = {"feasible": True, "plugin": "", "code": "Success", "reasons": []}
FULL = {"feasible": False, "plugin": "NodeResourcesFit", "code": "Unschedulable", "reasons": ["Insufficient cpu", "b"]}
PLACED: dict[str, Any] = {
    "id": 1,
    "pod": "default/p",
    "prefilter": {"status": "Success", "plugin": "", "reasons": [], "nodeNames": ["a", "b"]},
    "nodes": {"a": FITS, "b": FULL, "c": FITS},
    "scores": {"ImageLocality": {"a": 3, "c": 3}},
    "weights": {"ImageLocality": 1},
    "total": {"a": 3, "c": 3},
    "choice": ["a", "c"],
}
UNFIT: dict[str, Any] = {
    "id": 1,
    "pod": "default/p",
    "prefilter": {"status": "Success", "plugin": "", "reasons": [], "nodeNames": None},
    "nodes": {"a": FULL, "b": FULL},
    "filter_message": "0/2 nodes are available: 2 Insufficient cpu.",
    "fit_error_message": "0/2 nodes are available: 2 Insufficient cpu.",
    "preemption": {
        "status": "Success",
        "message": "",
        "nominatedNode": "a",
        "victims": ["default/v", "default/w"],
        "ties": ["a", "b"],
        "candidates": {
            "a": {"victims": ["default/v", "default/w"], "pdbViolations": 0},
            "b": {"victims": ["default/x"], "pdbViolations": 0},
        },
    },
}


def _set(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(answer: dict[str, Any]) -> None:
        *parents, last = path.split("/")
        for part in parents:
            answer = answer[part]
        answer[last] = value

    return change


def _changed(answer: dict[str, Any], *changes: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    changed = copy.deepcopy(answer)
    for change in changes:
        change(changed)
    return changed


@pytest.mark.parametrize(
    ("answer", "change", "kind"),
    [
        (PLACED, _set("pod", "default/q"), "pod"),
        (PLACED, _set("prefilter/nodeNames", None), "prefilter"),
        (PLACED, _set("prefilter/nodeNames", ["a"]), "prefilter"),
        (PLACED, _set("preenqueue", {"status": "U", "plugin": "Gates", "reasons": []}), "preenqueue Gates"),
        (PLACED, _set("nodes/b", FITS), "nodes NodeResourcesFit"),
        (PLACED, _set("nodes/a", FULL), "nodes NodeResourcesFit"),
        (PLACED, _set("nodes/b/code", "UnschedulableAndUnresolvable"), "nodes NodeResourcesFit"),
        (PLACED, _set("nodes/b/plugin", "NodePorts"), "nodes NodeResourcesFit"),
        (PLACED, _set("nodes/b/reasons", ["Insufficient cpu"]), "nodes NodeResourcesFit"),
        (PLACED, _set("nodes/d", FULL), "nodes"),
        (PLACED, _set("scores/ImageLocality/c", 4), "scores ImageLocality"),
        (PLACED, _set("scores", {}), "scores ImageLocality"),
        (PLACED, _set("scores/NodeAffinity", {"a": 0}), "scores NodeAffinity"),
        (PLACED, _set("weights/ImageLocality", 2), "weights"),
        (PLACED, _set("total/a", 4), "total"),
        (PLACED, _set("choice", ["a"]), "choice"),
        (PLACED, _set("error", "out of order"), "error"),
        (UNFIT, _set("filter_message", "0/2"), "message"),
        (UNFIT, _set("fit_error_message", "0/2"), "message"),
        (UNFIT, _set("preemption/status", "Unschedulable"), "preemption"),
        (UNFIT, _set("preemption/message", "no"), "preemption"),
        (UNFIT, _set("preemption/ties", ["a"]), "preemption"),
        (UNFIT, _set("preemption/nominatedNode", ""), "preemption"),
        (UNFIT, _set("preemption/nominatedNode", "c"), "preemption"),
        (UNFIT, _set("preemption/nominatedNode", "b"), "preemption"),  # with the victims of a
        (UNFIT, _set("preemption/victims", ["default/v"]), "preemption"),
        (UNFIT, _set("preemption/candidates/b/victims", []), "candidates"),
        (UNFIT, _set("preemption/candidates/a/victims", ["default/w", "default/v"]), "candidates"),
        (UNFIT, _set("preemption/candidates/a/pdbViolations", 1), "candidates"),
        (UNFIT, _set("preemption", None), "preemption"),
    ],
)
def test_difference_is_reported_by_kind(answer: dict[str, Any], change: Callable[..., None], kind: str) -> None:
    assert [d.kind for d in compare([answer], [_changed(answer, change)])][:1] == [kind]


@pytest.mark.parametrize(
    ("answer", "changes"),
    [
        (PLACED, []),
        (PLACED, [_set("choice", ["c", "a"])]),
        (PLACED, [_set("prefilter/nodeNames", ["b", "a"])]),
        (PLACED, [_set("nodes/b/reasons", ["b", "Insufficient cpu"])]),
        (UNFIT, []),
        (UNFIT, [_set("preemption/nominatedNode", "b"), _set("preemption/victims", ["default/x"])]),
        (UNFIT, [_set("preemption/ties", ["b", "a"])]),
    ],
)
def test_order_of_unordered_parts_is_ignored(answer: dict[str, Any], changes: list[Callable[..., None]]) -> None:
    assert compare([answer], [_changed(answer, *changes)]) == []


def test_order_of_the_errors_of_dry_runs_is_ignored() -> None:
    first, second = ('running "DynamicResources" filter plugin: claim c, request r: ' + text for text in ("no", "yes"))
    orders = [f"preemption: [{', '.join(errors)}]" for errors in ((first, second), (second, first), (first, first))]
    fit_errors = [f"0/2 nodes are available: 2 Insufficient cpu. {text}" for text in orders]
    theirs, same, other = (
        _changed(UNFIT, _set("preemption/message", text), _set("fit_error_message", fit_error))
        for text, fit_error in zip(orders, fit_errors, strict=True)
    )
    assert compare([theirs], [same]) == []
    assert {d.kind for d in compare([theirs], [other])} == {"message", "preemption"}


def test_error_texts_may_differ() -> None:
    theirs, ours = ({"id": 1, "pod": "default/p", "error": text} for text in ("not found", "no state"))
    assert compare([theirs], [ours]) == []


def test_document_rejected_by_one_side_is_a_difference() -> None:
    refused = {"id": 1, "error": "config: no"}
    assert [d.kind for d in compare([refused], [PLACED])] == ["document"]
    assert [d.kind for d in compare([PLACED], [refused])] == ["document"]
    assert compare([refused], [{"id": 1, "error": "profiles: none"}]) == []


def test_missing_result_is_a_difference() -> None:
    assert [d.kind for d in compare([PLACED, PLACED], [PLACED])] == ["answers"]


@pytest.mark.parametrize("field", ["pod", "node", "nominatedNode", "victims", "message"])
def test_first_differing_attempt_is_reported(field: str) -> None:
    attempt = {"pod": "default/p", "node": "a", "nominatedNode": "", "victims": [], "message": ""}
    other = {**attempt, field: "x"}
    theirs, ours = ([{"id": 1, "attempts": attempts}] for attempts in ([attempt] * 3, [attempt, other, other]))
    assert [(d.kind, d.text[:9]) for d in compare(theirs, ours)] == [(f"sequence {field}", "attempt 1")]
    assert compare(theirs, theirs) == []
    assert [d.kind for d in compare(theirs, [{"id": 1, "attempts": [attempt]}])] == ["sequence"]


def test_repetitions_that_agree_in_different_attempts_are_merged() -> None:
    def answer(*messages: str) -> list[dict[str, Any]]:
        attempts = [{"pod": "default/p", "node": "", "victims": [], "message": message} for message in messages]
        return [{"id": 1, "attempts": attempts}]

    ours = answer("cannot allocate", "cannot allocate", "Insufficient cpu")
    first = answer("cannot allocate", "invalid pool", "Insufficient cpu")
    second = answer("invalid pool", "cannot allocate", "Insufficient cpu")
    assert compare(first, ours)
    assert compare(second, ours)
    assert compare(merge_attempts(first, second, ours), ours) == []
    wrong = answer("cannot allocate", "Insufficient cpu", "Insufficient cpu")
    [difference] = compare(merge_attempts(first, second, wrong), wrong)
    assert difference.text.startswith("attempt 1")
    assert merge_attempts(first, [{"id": 1, "error": "panic: nil pointer"}], ours) == first


def test_repetitions_that_agree_for_different_pods_are_merged() -> None:
    both = _changed(UNFIT, _set("nodes/b/reasons", ["invalid resource pools were encountered"]))
    ours = [both, both]
    first, second = [both, UNFIT], [UNFIT, both]
    assert compare(first, ours)
    assert compare(second, ours)
    assert compare(merge_pods(first, second, ours), ours) == []
    wrong = [both, _changed(UNFIT, _set("nodes/b/reasons", ["Insufficient cpu"]))]
    assert compare(merge_pods(first, second, wrong), wrong) == compare(first, wrong)
    assert merge_pods(first, [{"id": 1, "error": "panic: nil pointer"}], ours) == first


def test_sequence_is_compared_up_to_first_error() -> None:
    def answer(message: str, node: str) -> list[dict[str, Any]]:
        return [{"id": 1, "attempts": [{"pod": "default/p", "node": "", "message": message}, {"node": node}]}]

    theirs = answer("running PreScore plugin: no", "a")
    assert compare(theirs, answer('running "A" filter plugin: bad', "b")) == []
    assert [d.kind for d in compare(theirs, answer("0/1 nodes are available", "a"))] == ["sequence message"]


PANIC = {"id": 1, "pod": "default/q", "error": "panic: nil pointer"}


def test_pods_for_which_kube_scheduler_panicked_are_not_compared() -> None:
    ours = {**PLACED, "pod": "default/q"}
    assert not compare([PANIC, PLACED], [ours, PLACED])
    assert compare([PANIC, PLACED], [ours, UNFIT])
    assert not compare([{"id": 1, "error": "panic: nil pointer"}], [PLACED])
    assert compare([{**PANIC, "error": "another error"}], [ours])


def test_panics_and_skipped_cases_are_counted() -> None:
    coverage = Coverage()
    coverage.add(Case({"id": 1}, ()), [PANIC, PLACED], [])
    coverage.add(Case({"id": 2}, ()), [{"id": 2, "error": "took longer than the deadline", "skipped": True}], [])
    assert (coverage.cases, coverage.skipped) == (1, [2])
    table = "\n".join(coverage.table())
    assert "panics of kube-scheduler: 1, in cases [1]\n       1  panic: nil pointer" in table
    assert table.endswith("took too long: 1, cases [2]")
