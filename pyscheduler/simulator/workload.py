"""Simulated workload: the pods of one object, and their run times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyscheduler.core.pod_groups.run_times import RUN_SECONDS
from pyscheduler.simulator.scenario import Manifest, PlacedManifest, SimulationProblem

MAX_PODS: Final = 100_000
"""Maximum number of pods of one workload."""


@dataclass(slots=True, eq=False)
class SimulatedWorkload:
    """Pods of one object."""

    place: str
    pods: Iterator[Manifest]
    """Pods that are still to be created."""
    parallelism: int = 1
    """Number of pods that run at a time."""
    run_seconds: float | None = None
    """Run time of the pods, by default that of their annotations; None: the pods run until the end."""
    objects: list[Manifest] = field(default_factory=list)
    """Objects that its controller creates before the pods."""
    recreates: bool = True
    """False for a pod without a controller: it is gone after an eviction."""
    survives_nodes: bool = True
    """False if its pods are not created anew when their node is removed."""
    restarts_whole: bool = False
    """True if all pods restart when one is evicted or lost."""

    def new_pods(self, count: int) -> list[Manifest]:
        """Return the next pods, at most `count`."""
        return [pod for _, pod in zip(range(count), self.pods, strict=False)]


def declared_run_seconds(placed: PlacedManifest, template: Mapping[str, Any]) -> float | None:
    """Return the run time in the annotation of a pod or a template, None if it has none."""
    meta = template.get("metadata")
    text = ((meta if isinstance(meta, dict) else {}).get("annotations") or {}).get(RUN_SECONDS)
    if text is None:
        return None
    try:
        seconds = float(text)
    except (TypeError, ValueError):
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise problem(placed, f"annotation {RUN_SECONDS}: {text!r} is not a number of seconds above 0")
    return seconds


def no_run_time(placed: PlacedManifest) -> SimulationProblem:
    """Return the error of a workload that should end, and has no run time."""
    where = f"set runSeconds of the arrival, or the annotation {RUN_SECONDS} of the pods"
    return problem(placed, f"has no run time: {where}")


def problem(placed: PlacedManifest, what: str) -> SimulationProblem:
    """Return an error about an object."""
    obj = placed.manifest
    return SimulationProblem(f"{placed.place}: {obj.get('kind')} {(obj.get('metadata') or {}).get('name')}: {what}")
