"""The audit of a chaos run finds what it is there for, in the evidence of runs that went wrong."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.e2e.client import Json
from tests.tasks.audit import Evidence, ReportedUpdates
from tests.tasks.witness import ATTEMPT, TASK, Witness

WELL, TWICE, SNATCHED = "succeeds-00000", "retried-00001", "snatched-00002"


def event(kind: str, name: str, phase: str, deleting: bool = False, uid: str = "", grace: int = 30) -> Json:
    """One of a watch. Names of pods are task.attempt; `grace` is the seconds to stop in that a pod has, if deleting."""
    task, _, attempt = name.partition(".")
    metadata: Json = {"name": name, "uid": uid or name, "resourceVersion": "1"}
    metadata["annotations"] = {TASK: task, ATTEMPT: attempt}
    if deleting:
        metadata |= {"deletionTimestamp": "now", "deletionGracePeriodSeconds": grace}
    spec = {"containers": [{"resources": {"requests": {"cpu": "100m"}}}]}
    return {"type": kind, "object": {"metadata": metadata, "spec": spec, "status": {"phase": phase}}}


def life(name: str, end: str) -> list[Json]:
    """A pod from its creation to its deletion."""
    phases = ("Pending", "Running", end)
    return [*(event("MODIFIED", name, phase) for phase in phases), event("DELETED", name, end)]


RIGHT = [*life(f"{WELL}.1", "Succeeded"), *life(f"{TWICE}.1", "Failed"), *life(f"{TWICE}.2", "Failed")]
RIGHT += [*life(f"{SNATCHED}.1", "Failed"), *life(f"{SNATCHED}.2", "Succeeded")]
UPDATES = [(WELL, 1, "Submitted"), (WELL, 2, "Running"), (WELL, 3, "Succeeded"), (WELL, 3, "Succeeded")]
UPDATES += [(TWICE, 1, "Submitted"), (TWICE, 6, "Failed"), (SNATCHED, 4, "Succeeded")]


def evidence(events: list[Json], updates: list[tuple[str, int, str]] | None = None, **other: Any) -> Evidence:
    """Of a run in which all went well but for what is given."""
    witness = Witness()
    for each in events:
        witness.see(each)
    ended = {"cleaned": True, "told": True}
    records: dict[str, Any] = {id: {"phase": "Succeeded", **ended} for id in (WELL, SNATCHED)}
    records[TWICE] = {"phase": "Failed", **ended}
    given = {
        "ids": [WELL, TWICE, SNATCHED],
        "records": {**records, **other.pop("records", {})},
        "snatched": Counter({SNATCHED: 1}),
        "most": 3,
        "summary": {"free": {"pods": 3}, "budget": {"pods": 3}},
        "left": [],
    }
    return Evidence(
        witness=witness, told=ReportedUpdates(UPDATES if updates is None else updates), **{**given, **other}
    )


@pytest.mark.parametrize(("grace", "together"), [(30, 2), (1, 2), (0, 1)])
def test_a_deleted_pod_takes_room_until_it_had_its_time_to_stop(grace: int, together: int) -> None:
    deleted = [event("ADDED", "a.1", "Pending"), event("MODIFIED", "a.1", "Pending", deleting=True, grace=grace)]
    after = [event("MODIFIED", "a.1", "Running", deleting=True, grace=grace), event("ADDED", "b.1", "Pending")]
    witness = Witness()
    for each in (*deleted, *after):
        witness.see(each)
    assert witness.most_alive == together


def test_nothing_is_wrong_with_a_run_that_went_well() -> None:
    assert evidence(RIGHT).problems() == []


WRONG: list[tuple[Evidence, str]] = [
    (evidence([*RIGHT, *life(f"{WELL}.2", "Succeeded")]), f"task {WELL} had the pods"),
    (
        evidence([event("ADDED", f"{WELL}.2", "Pending"), *RIGHT, event("DELETED", f"{WELL}.2", "Pending")]),
        f"task {WELL}: pods {WELL}.2 and {WELL}.1 were there at once",
    ),
    (evidence([*RIGHT, event("ADDED", f"{WELL}.1", "Pending", uid="other")]), "two pods had one name"),
    (evidence(RIGHT[:4] + RIGHT[8:]), f"task {TWICE} had 1 pods, and 2 were to be"),
    (evidence(RIGHT[4:]), f"task {WELL} is Succeeded, and its last pod was never there"),
    (evidence([*RIGHT, *life("stray.1", "Failed")]), "pods of 'stray', which nobody submitted"),
    (evidence([*RIGHT[:-1]], most=0), "1 pods were there at once, and the budget has 0"),
    (evidence([*RIGHT, event("ADDED", "succeeds-00009.1", "Pending")], ids=[WELL]), "1 pods have not ended"),
    (evidence(RIGHT, records={WELL: {"phase": "Running"}}), f"task {WELL} is Running () and should be ['Succeeded']"),
    (evidence(RIGHT, records={WELL: {"phase": "Succeeded", "told": True}}), f"task {WELL} is not cleaned up after"),
    (evidence(RIGHT, records={WELL: {"phase": "Succeeded", "cleaned": True}}), "has not confirmed its end"),
    (evidence(RIGHT, ids=[WELL, TWICE, SNATCHED, "fails-00003"]), "task fails-00003 is not on record"),
    (evidence(RIGHT, [*UPDATES, (WELL, 4, "Failed")]), f"task {WELL}: its owner was told 2 ends"),
    (evidence(RIGHT, [*UPDATES, (WELL, 4, "Running")]), f"task {WELL}: its owner was told Running after its end"),
    (evidence(RIGHT, UPDATES[4:]), f"task {WELL}: its owner was told 0 ends"),
    (evidence(RIGHT, UPDATES[4:]), "300 thousandths of a cpu were asked for, and 200 came back"),
    (evidence(RIGHT, [*UPDATES[4:], (WELL, 9, "Failed")]), "was told Failed, and Succeeded is on record"),
    (evidence(RIGHT, summary={"free": {"pods": 4}, "budget": {"pods": 3}}), "in the end {'pods': 4} is free of"),
    (evidence(RIGHT, left=["a"]), "pod a is left"),
    (evidence(RIGHT, snatched=Counter()), f"task {SNATCHED} had the pods"),
]


@pytest.mark.parametrize(("found", "said"), WRONG, ids=[said for _, said in WRONG])
def test_what_went_wrong_is_found(found: Evidence, said: str) -> None:
    assert [problem for problem in found.problems() if said in problem]


def test_a_witness_that_missed_something_is_none() -> None:
    found = evidence(RIGHT)
    found.witness.blind = "410"
    assert found.problems() == ["410"]
