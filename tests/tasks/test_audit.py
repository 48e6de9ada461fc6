"""The audit of a chaos run reports each kind of violation."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.e2e.client import Json
from tests.tasks.audit import Evidence, ReportedUpdates
from tests.tasks.witness import ATTEMPT, TASK, Witness

ONCE, TWICE, DELETED = "succeeds-00000", "retried-00001", "deleted-00002"


def event(kind: str, name: str, phase: str, deleting: bool = False, uid: str = "", grace: int = 30) -> Json:
    """Return a watch event. Pods are named task.attempt; `grace` is the grace period of a deleted pod."""
    task, _, attempt = name.partition(".")
    metadata: Json = {"name": name, "uid": uid or name, "resourceVersion": "1"}
    metadata["annotations"] = {TASK: task, ATTEMPT: attempt}
    if deleting:
        metadata |= {"deletionTimestamp": "now", "deletionGracePeriodSeconds": grace}
    spec = {"containers": [{"resources": {"requests": {"cpu": "100m"}}}]}
    return {"type": kind, "object": {"metadata": metadata, "spec": spec, "status": {"phase": phase}}}


def pod_events(name: str, end: str) -> list[Json]:
    """Return the events of a pod from its creation to its deletion."""
    phases = ("Pending", "Running", end)
    return [*(event("MODIFIED", name, phase) for phase in phases), event("DELETED", name, end)]


RIGHT = [
    *pod_events(f"{ONCE}.1", "Succeeded"),
    *pod_events(f"{TWICE}.1", "Failed"),
    *pod_events(f"{TWICE}.2", "Failed"),
]
RIGHT += [*pod_events(f"{DELETED}.1", "Failed"), *pod_events(f"{DELETED}.2", "Succeeded")]
UPDATES = [(ONCE, 1, "Submitted"), (ONCE, 2, "Running"), (ONCE, 3, "Succeeded"), (ONCE, 3, "Succeeded")]
UPDATES += [(TWICE, 1, "Submitted"), (TWICE, 6, "Failed"), (DELETED, 4, "Succeeded")]


def evidence(events: list[Json], updates: list[tuple[str, int, str]] | None = None, **other: Any) -> Evidence:
    """Return the evidence of a run without problems except for the given values."""
    witness = Witness()
    for each in events:
        witness.handle_event(each)
    ended = {"cleaned": True, "told": True}
    records: dict[str, Any] = {id: {"phase": "Succeeded", **ended} for id in (ONCE, DELETED)}
    records[TWICE] = {"phase": "Failed", **ended}
    defaults = {
        "ids": [ONCE, TWICE, DELETED],
        "records": {**records, **other.pop("records", {})},
        "deletions": Counter({DELETED: 1}),
        "max_pods": 3,
        "summary": {"free": {"pods": 3}, "budget": {"pods": 3}},
        "left": [],
    }
    reported = ReportedUpdates(UPDATES if updates is None else updates)
    return Evidence(witness=witness, reported=reported, **{**defaults, **other})


@pytest.mark.parametrize(("grace", "most_alive"), [(30, 2), (1, 2), (0, 1)])
def test_deleted_pod_is_alive_until_its_grace_period_is_over(grace: int, most_alive: int) -> None:
    deleted = [event("ADDED", "a.1", "Pending"), event("MODIFIED", "a.1", "Pending", deleting=True, grace=grace)]
    after = [event("MODIFIED", "a.1", "Running", deleting=True, grace=grace), event("ADDED", "b.1", "Pending")]
    witness = Witness()
    for each in (*deleted, *after):
        witness.handle_event(each)
    assert witness.most_alive == most_alive


def test_run_without_violations_has_no_problems() -> None:
    assert evidence(RIGHT).problems() == []


WRONG: list[tuple[Evidence, str]] = [
    (evidence([*RIGHT, *pod_events(f"{ONCE}.2", "Succeeded")]), f"task {ONCE} had the pods"),
    (
        evidence([event("ADDED", f"{ONCE}.2", "Pending"), *RIGHT, event("DELETED", f"{ONCE}.2", "Pending")]),
        f"task {ONCE}: pods {ONCE}.2 and {ONCE}.1 were alive at once",
    ),
    (evidence([*RIGHT, event("ADDED", f"{ONCE}.1", "Pending", uid="other")]), "two pods had the same name"),
    (evidence(RIGHT[:4] + RIGHT[8:]), f"task {TWICE} had 1 pods, expected 2"),
    (evidence(RIGHT[4:]), f"task {ONCE} is Succeeded, but its last pod was never observed"),
    (evidence([*RIGHT, *pod_events("stray.1", "Failed")]), "pods of 'stray', which was not submitted"),
    (evidence([*RIGHT[:-1]], max_pods=0), "1 pods were alive at once, but the budget allows 0"),
    (evidence([*RIGHT, event("ADDED", "succeeds-00009.1", "Pending")], ids=[ONCE]), "1 pods have not ended"),
    (evidence(RIGHT, records={ONCE: {"phase": "Running"}}), f"task {ONCE} is Running () and should be ['Succeeded']"),
    (evidence(RIGHT, records={ONCE: {"phase": "Succeeded", "told": True}}), f"task {ONCE} is not cleaned up"),
    (evidence(RIGHT, records={ONCE: {"phase": "Succeeded", "cleaned": True}}), "has not acknowledged its end"),
    (evidence(RIGHT, ids=[ONCE, TWICE, DELETED, "fails-00003"]), "task fails-00003 has no record"),
    (evidence(RIGHT, [*UPDATES, (ONCE, 4, "Failed")]), f"task {ONCE}: its owner received 2 ends"),
    (evidence(RIGHT, [*UPDATES, (ONCE, 4, "Running")]), f"task {ONCE}: its owner received Running after its end"),
    (evidence(RIGHT, UPDATES[4:]), f"task {ONCE}: its owner received 0 ends"),
    (evidence(RIGHT, UPDATES[4:]), "300m cpu were requested, but 200m were released"),
    (evidence(RIGHT, [*UPDATES[4:], (ONCE, 9, "Failed")]), "received Failed, but its record is Succeeded"),
    (evidence(RIGHT, summary={"free": {"pods": 4}, "budget": {"pods": 3}}), "in the end {'pods': 4} is free of"),
    (evidence(RIGHT, left=["a"]), "pod a is left"),
    (evidence(RIGHT, deletions=Counter()), f"task {DELETED} had the pods"),
]


@pytest.mark.parametrize(("wrong", "expected"), WRONG, ids=[expected for _, expected in WRONG])
def test_violation_is_reported(wrong: Evidence, expected: str) -> None:
    assert [problem for problem in wrong.problems() if expected in problem]


def test_missed_events_are_reported() -> None:
    incomplete = evidence(RIGHT)
    incomplete.witness.blind = "410"
    assert incomplete.problems() == ["410"]
