"""Audit of a finished chaos run: compares observed pods, durable records and the updates the owner received."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.tasks.kinds import DELETED, KINDS, MILLIS, RELABELLED, RETRIED, kind_of
from tests.tasks.witness import SeenPod, Witness

FINAL = ("Succeeded", "Failed", "Killed")


@dataclass
class ReportedUpdates:
    """Updates that the owner received, in order."""

    updates: list[tuple[str, int, str]] = field(default_factory=list)
    """Id, version and phase of each update."""

    @classmethod
    def read(cls, journal: Path) -> ReportedUpdates:
        """Read the owner's journal. A line truncated by a crash was never acknowledged and is ignored."""
        lines = journal.read_text().split("\n")[:-1]
        entries = [json.loads(line) for line in lines]
        return cls([(entry["id"], entry["version"], entry["phase"]) for entry in entries])


@dataclass
class Evidence:
    """Results of a chaos run to be compared."""

    ids: list[str]
    witness: Witness
    records: Mapping[str, Mapping[str, Any]]
    """Durable records by task id."""
    reported: ReportedUpdates
    deletions: Counter[str]
    """Pods deleted by another client, by task."""
    max_pods: int
    """Pods that the budget allows."""
    summary: Mapping[str, Any]
    """Summary of the owner's last process."""
    left: list[str]
    """Pods that exist in the end."""

    def problems(self) -> list[str]:
        """Return all violations of the expected result."""
        return [
            *([self.witness.blind] if self.witness.blind else []),
            *self._states(),
            *self._updates(),
            *self.witness.together,
            *(problem for id in self.ids for problem in self._work(id, self.witness.of_task.get(id, []))),
            *(f"pods of {id!r}, which was not submitted" for id in self.witness.of_task.keys() - set(self.ids)),
            *self._resources(),
            *(f"pod {name} is left" for name in self.left),
        ]

    def histories(self, problems: Iterable[str]) -> dict[str, Any]:
        """Return record and observed pods of each task that a problem names."""
        named = {word for problem in problems for word in problem.replace(":", " ").split()} & set(self.ids)
        return {
            id: {"record": self.records.get(id), "pods": [vars(pod) for pod in self.witness.of_task.get(id, [])]}
            for id in sorted(named)[:20]
        }

    def _states(self) -> Iterable[str]:
        """Check that each task has a record with an expected final phase, is cleaned up and acknowledged."""
        yield from (f"task {id} has no record" for id in set(self.ids) - self.records.keys())
        yield from (f"task {id} has a record, but was not submitted" for id in self.records.keys() - set(self.ids))
        for id, record in self.records.items():
            expected = KINDS[kind_of(id)].phases if id in self.ids else frozenset[str]()
            if expected and record["phase"] not in expected:
                yield f"task {id} is {record['phase']} ({record.get('message', '')}) and should be {sorted(expected)}"
            if not record.get("cleaned"):
                yield f"task {id} is not cleaned up"
            if not record.get("told"):
                yield f"task {id}: its owner has not acknowledged its end"

    def _updates(self) -> Iterable[str]:
        """Check that the owner received one final state of each task, and no other state after it."""
        ends = reported_ends(self.reported)
        has_ended = set()
        for id, _, phase in self.reported.updates:
            if phase in FINAL:
                has_ended.add(id)
            elif id in has_ended:
                yield f"task {id}: its owner received {phase} after its end"
        for id in self.ids:
            if len(ends[id]) != 1:
                yield f"task {id}: its owner received {len(ends[id])} ends: {sorted(ends[id])}"
            elif id in self.records and (received := next(iter(ends[id]))[1]) != self.records[id]["phase"]:
                yield f"task {id}: its owner received {received}, but its record is {self.records[id]['phase']}"

    def _work(self, id: str, pods: list[SeenPod]) -> Iterable[str]:
        """Check that the task ran as often as its retry policy allows, and that its last pod ended like its record."""
        kind = KINDS[kind_of(id)]
        phase = self.records[id]["phase"] if id in self.records else ""
        allowed = kind.pods + self.deletions[id]
        if len(pods) > allowed or sum(pod.ran for pod in pods) > allowed:
            yield f"task {id} had the pods {[pod.name for pod in pods]}, expected at most {allowed}"
        if phase != "Killed" and len(pods) < kind.pods:
            yield f"task {id} had {len(pods)} pods, expected {kind.pods}"
        if len({pod.name for pod in pods}) < len(pods):
            yield f"task {id}: two pods had the same name: {[pod.name for pod in pods]}"
        if phase in ("Succeeded", "Failed") and (not pods or pods[-1].phases[-1] != phase):
            yield f"task {id} is {phase}, but its last pod was {pods[-1].phases if pods else 'never observed'}"
        if phase != "Succeeded" and any("Succeeded" in pod.phases for pod in pods):
            yield f"task {id} is {phase}, but one of its pods succeeded"

    def _resources(self) -> Iterable[str]:
        """Check that all allocated resources were released, and that the budget was never exceeded."""
        requested = MILLIS * len(self.ids)
        released = MILLIS * len({(id, version) for id, version, phase in self.reported.updates if phase in FINAL})
        if requested != released:
            yield f"{requested}m cpu were requested, but {released}m were released"
        if self.summary["free"] != self.summary["budget"]:
            yield f"in the end {self.summary['free']} is free of {self.summary['budget']}"
        if self.witness.most_alive > self.max_pods:
            yield f"{self.witness.most_alive} pods were alive at once, but the budget allows {self.max_pods}"
        if self.witness.alive:
            yield f"{self.witness.alive} pods have not ended"


def reported_ends(reported: ReportedUpdates) -> dict[str, set[tuple[int, str]]]:
    """Return version and phase of the final updates by task; more than one is a second end, not a repeated update."""
    ends: dict[str, set[tuple[int, str]]] = defaultdict(set)
    for id, version, phase in reported.updates:
        if phase in FINAL:
            ends[id].add((version, phase))
    return ends


def may_delete(pod: SeenPod, deletions: Counter[str]) -> bool:
    """Return True if the other client may delete this pod now."""
    return kind_of(pod.task) == DELETED and pod.alive and not pod.deleting and pod.ran and not deletions[pod.task]


def may_relabel(pod: SeenPod, relabelled: Counter[str]) -> bool:
    """Return True if the other client may remove the label of this pod now."""
    if pod.gone or pod.deleting or relabelled[pod.name]:
        return False
    runs = kind_of(pod.task) == RELABELLED and pod.alive and pod.ran
    failed_first = kind_of(pod.task) == RETRIED and pod.attempt == "1" and pod.phases[-1] == "Failed"
    return runs or failed_first
