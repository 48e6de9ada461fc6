"""Scenario of a simulation: objects at time 0, arrivals of workloads, and changes of nodes."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Manifest = dict[str, Any]


class SimulationProblem(Exception):
    """A scenario cannot be simulated; the message begins with the place in its file."""


class NodeAction(enum.StrEnum):
    """Change of a node."""

    CORDON = "cordon"
    UNCORDON = "uncordon"
    REMOVE = "remove"
    """The node is deleted, and its pods are lost."""
    ADD = "add"
    """A removed node returns."""


@dataclass(frozen=True, slots=True)
class PlacedManifest:
    """Manifest, and its place in a file for error messages."""

    place: str
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Arrival:
    """Objects that are created at a time; `{i}` and `{runSeconds}` in them stand for the numbers here."""

    name: str
    at: float
    number: int
    run_seconds: float | None
    """Run time of the pods, None if their annotations have it."""
    objects: Sequence[PlacedManifest]

    def manifests(self) -> list[PlacedManifest]:
        """Return the objects with the numbers in place of their placeholders."""
        numbers = {"{i}": str(self.number)}
        if self.run_seconds is not None:
            numbers["{runSeconds}"] = f"{self.run_seconds:.15g}"
        return [PlacedManifest(each.place, _filled(each.manifest, numbers)) for each in self.objects]


@dataclass(frozen=True, slots=True)
class NodeChange:
    """Change of a node at a time."""

    at: float
    node: str
    action: NodeAction
    place: str


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything that a simulation depends on, except for the configuration of the scheduler."""

    objects: Sequence[PlacedManifest] = ()
    arrivals: Sequence[Arrival] = ()
    changes: Sequence[NodeChange] = ()
    until: float | None = None
    """End of the simulation in seconds; None: when everything that ends has ended."""
    seed: int = 0
    """Seed of the scheduler's tie-breaking."""


def _filled(part: Any, numbers: dict[str, str]) -> Any:
    if isinstance(part, str):
        for placeholder, number in numbers.items():
            part = part.replace(placeholder, number)
        return part
    if isinstance(part, dict):
        return {_filled(key, numbers): _filled(value, numbers) for key, value in part.items()}
    return [_filled(each, numbers) for each in part] if isinstance(part, list) else part
