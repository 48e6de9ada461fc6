"""Pod groups without objects: annotations of the pods have the requirements, the same on all pods of a group."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from msgspec.structs import replace

from pyscheduler.api import Pod, PodGroup, PodGroupKey, Rejection, TopologyConstraint

GROUP_NAME: Final = "pyscheduler.io/pod-group"
MIN_COUNT: Final = "pyscheduler.io/pod-group-min-count"
QUEUE: Final = "pyscheduler.io/pod-group-queue"
ROLE: Final = "pyscheduler.io/pod-group-role"
REQUIRED_TOPOLOGY: Final = "pyscheduler.io/pod-group-required-topology"
"""Node labels, separated by commas, of each of which all pods of the group must have the same value."""
PREFERRED_TOPOLOGY: Final = "pyscheduler.io/pod-group-preferred-topology"
"""Node labels, the narrowest first, of one of which all pods should have the same value. For groups of any API."""

ALL: Final = frozenset({GROUP_NAME, MIN_COUNT, QUEUE, ROLE})
_COUNT: Final = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)


def name_of(pod: Pod) -> str:
    """Return the name of the group that a pod declares, "" if there is none."""
    return pod.annotations.get(GROUP_NAME, "")


def missing(pod: Pod) -> str:
    """Return the reason why the annotations of a pod are incomplete, "" if they are complete."""
    if name_of(pod) or ALL.isdisjoint(pod.annotations):
        return ""
    return f"annotation {min(ALL & pod.annotations.keys())} requires the name of the group in annotation {GROUP_NAME}"


def read(key: PodGroupKey, members: Collection[Pod]) -> PodGroup | Rejection:
    """Return the requirements that the pods of a group declare, or the reason why they are invalid."""
    first = next(iter(members))
    for annotation in (MIN_COUNT, QUEUE):
        value = first.annotations.get(annotation)
        for pod in members:
            if pod.annotations.get(annotation) != value:
                return _differ(annotation, first, pod)
    min_count = first.annotations.get(MIN_COUNT)
    if min_count is None:
        return _invalid(first, MIN_COUNT, "required for pods of a pod group")
    if not _COUNT.fullmatch(min_count):
        return _invalid(first, MIN_COUNT, f'"{min_count}" is not a number of pods from 1 to 999999999')
    return PodGroup(key, int(min_count), queue=first.annotations.get(QUEUE, ""))


def with_topology(group: PodGroup, members: Collection[Pod]) -> PodGroup | Rejection:
    """Return the group with the topologies that annotations of its pods add to it."""
    topology = group.topology
    for annotation, required in ((REQUIRED_TOPOLOGY, True), (PREFERRED_TOPOLOGY, False)):
        first = next(iter(members))
        value = first.annotations.get(annotation)
        for pod in members:
            if pod.annotations.get(annotation) != value:
                return _differ(annotation, first, pod)
        keys = [key.strip() for key in (value or "").split(",") if key.strip()]
        topology += tuple(TopologyConstraint(key, required) for key in keys)
    return group if topology == group.topology else replace(group, topology=topology)


def _invalid(pod: Pod, annotation: str, why: str) -> Rejection:
    return Rejection(f"pod {pod.key}: annotation {annotation}: {why}", resolvable=False)


def _differ(annotation: str, one: Pod, other: Pod) -> Rejection:
    values = " and ".join(_quoted(pod.annotations.get(annotation)) for pod in (one, other))
    text = f"pods {one.key} and {other.key} of one pod group have different annotations {annotation}: {values}"
    return Rejection(text, resolvable=False)


def _quoted(value: str | None) -> str:
    return "none" if value is None else f'"{value}"'
