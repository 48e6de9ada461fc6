"""What must be true when a chaos run is over: what was seen, what is on record and what the owner was told."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.tasks.kinds import KINDS, MILLIS, SNATCHED, kind_of
from tests.tasks.witness import SeenPod, Witness

FINAL = ("Succeeded", "Failed", "Killed")


@dataclass
class ReportedUpdates:
    """What the owner was told, in order."""

    updates: list[tuple[str, int, str]] = field(default_factory=list)
    """Id, version and phase."""

    @classmethod
    def read(cls, journal: Path) -> ReportedUpdates:
        """From the owner's journal. A line that a crash has cut off was never confirmed, and does not count."""
        lines = journal.read_text().split("\n")[:-1]
        found = [json.loads(line) for line in lines]
        return cls([(line["id"], line["version"], line["phase"]) for line in found])


@dataclass
class Evidence:
    """All that there is to be compared."""

    ids: list[str]
    witness: Witness
    records: Mapping[str, Mapping[str, Any]]
    """By id, as they are in the state."""
    told: ReportedUpdates
    snatched: Counter[str]
    """How often somebody else has deleted a pod of a task."""
    most: int
    """Pods that the budget allows."""
    summary: Mapping[str, Any]
    """What the owner's last process found in the end."""
    left: list[str]
    """Pods that are there in the end."""

    def problems(self) -> list[str]:
        """Everything that is not as it must be."""
        return [
            *([self.witness.blind] if self.witness.blind else []),
            *self._states(),
            *self._updates(),
            *self.witness.together,
            *(problem for id in self.ids for problem in self._work(id, self.witness.of_task.get(id, []))),
            *(f"pods of {id!r}, which nobody submitted" for id in self.witness.of_task.keys() - set(self.ids)),
            *self._resources(),
            *(f"pod {name} is left" for name in self.left),
        ]

    def stories(self, problems: Iterable[str]) -> dict[str, Any]:
        """What was seen of each task that a problem names."""
        named = {word for problem in problems for word in problem.replace(":", " ").split()} & set(self.ids)
        return {
            id: {"record": self.records.get(id), "pods": [vars(pod) for pod in self.witness.of_task.get(id, [])]}
            for id in sorted(named)[:20]
        }

    def _states(self) -> Iterable[str]:
        """Every task is in one final state, which is the right one, and is done with."""
        yield from (f"task {id} is not on record" for id in set(self.ids) - self.records.keys())
        yield from (f"task {id} is on record, and nobody submitted it" for id in self.records.keys() - set(self.ids))
        for id, record in self.records.items():
            right = KINDS[kind_of(id)].phases if id in self.ids else frozenset[str]()
            if right and record["phase"] not in right:
                yield f"task {id} is {record['phase']} ({record.get('message', '')}) and should be {sorted(right)}"
            if not record.get("cleaned"):
                yield f"task {id} is not cleaned up after"
            if not record.get("told"):
                yield f"task {id}: its owner has not confirmed its end"

    def _updates(self) -> Iterable[str]:
        """The owner was told one final state of each task, and nothing else after it."""
        ends: dict[str, set[tuple[int, str]]] = defaultdict(set)
        for id, version, phase in self.told.updates:
            if phase in FINAL:
                ends[id].add((version, phase))
            elif ends[id]:
                yield f"task {id}: its owner was told {phase} after its end"
        for id in self.ids:
            if len(ends[id]) != 1:
                yield f"task {id}: its owner was told {len(ends[id])} ends: {sorted(ends[id])}"
            elif id in self.records and (said := next(iter(ends[id]))[1]) != self.records[id]["phase"]:
                yield f"task {id}: its owner was told {said}, and {self.records[id]['phase']} is on record"

    def _work(self, id: str, pods: list[SeenPod]) -> Iterable[str]:
        """Its work was done as often as its policy says, and its last pod ended as the record does."""
        kind = KINDS[kind_of(id)]
        phase = self.records[id]["phase"] if id in self.records else ""
        may = kind.pods + self.snatched[id]
        if len(pods) > may or sum(pod.ran for pod in pods) > may:
            yield f"task {id} had the pods {[pod.name for pod in pods]}, and {may} were right"
        if phase != "Killed" and len(pods) < kind.pods:
            yield f"task {id} had {len(pods)} pods, and {kind.pods} were to be"
        if len({pod.name for pod in pods}) < len(pods):
            yield f"task {id}: two pods had one name: {[pod.name for pod in pods]}"
        if phase in ("Succeeded", "Failed") and (not pods or pods[-1].phases[-1] != phase):
            yield f"task {id} is {phase}, and its last pod was {pods[-1].phases if pods else 'never there'}"
        if phase != "Succeeded" and any("Succeeded" in pod.phases for pod in pods):
            yield f"task {id} is {phase}, and a pod of it has succeeded"

    def _resources(self) -> Iterable[str]:
        """What was submitted has come back, to the last thousandth, and no more was in use than there was."""
        asked = MILLIS * len(self.ids)
        released = MILLIS * len({(id, version) for id, version, phase in self.told.updates if phase in FINAL})
        if asked != released:
            yield f"{asked} thousandths of a cpu were asked for, and {released} came back"
        if self.summary["free"] != self.summary["budget"]:
            yield f"in the end {self.summary['free']} is free of {self.summary['budget']}"
        if self.witness.most_alive > self.most:
            yield f"{self.witness.most_alive} pods were there at once, and the budget has {self.most}"
        if self.witness.alive:
            yield f"{self.witness.alive} pods have not ended"


def may_snatch(pod: SeenPod, snatched: Counter[str]) -> bool:
    """Whether somebody else may delete this pod now."""
    return kind_of(pod.task) == SNATCHED and pod.alive and not pod.deleting and pod.ran and not snatched[pod.task]
