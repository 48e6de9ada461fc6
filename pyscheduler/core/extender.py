"""What the core knows of HTTP extenders: who they are, what they are asked, and what they may answer.

An extender is a service beside the scheduler that has a say in its decisions, as kube-scheduler's have. The core never
speaks to one: an attempt says what is to be asked, and goes on with the answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from pyscheduler.api.objects import Container
from pyscheduler.api.pod import Pod
from pyscheduler.api.preemption import Candidate

EXTENDER = "Extender"
"""Who has rejected a pod that lost nodes to an extender; as with kube-scheduler's pseudo plugin, any event may help."""


class Extender(msgspec.Struct, frozen=True):
    """One extender, as far as decisions go."""

    url: str
    """Its name in messages."""
    place: int = 0
    """Which of the configuration's extenders it is, from 0."""
    filters: bool = False
    prioritizes: bool = False
    preempts: bool = False
    weight: int = 1
    """What its scores are multiplied by."""
    ignorable: bool = False
    """Whether the pod is scheduled without it where it fails to filter or preempt."""
    managed: frozenset[str] = frozenset()
    """It is asked about pods that have one of these resources; about every pod if there are none."""

    def is_interested(self, pod: Pod) -> bool:
        """Whether the pod is its business: some container requests or limits a resource that it manages."""
        if not self.managed:
            return True
        containers = (*pod.spec.containers, *(pod.spec.init_containers or ()))
        return any(not self.managed.isdisjoint(_resources(container)) for container in containers)


def _resources(container: Container) -> Iterable[str]:
    stated = container.resources
    return () if stated is None else (*(stated.requests or ()), *(stated.limits or ()))


class FilterCall(msgspec.Struct, frozen=True):
    """Which of these nodes may the pod have? Answered by ExtenderFilterResult."""

    extender: Extender
    nodes: tuple[str, ...]


class PrioritizeCall(msgspec.Struct, frozen=True):
    """How good is each of these nodes? Answered by ExtenderPrioritizeResult."""

    extender: Extender
    nodes: tuple[str, ...]


class PreemptCall(msgspec.Struct, frozen=True):
    """On which of these nodes may which pods make room? Answered by ExtenderPreemptionResult."""

    extender: Extender
    candidates: Mapping[str, Candidate]


class ExtenderFilterResult(msgspec.Struct, frozen=True):
    """The nodes that are left, some of those asked about, and why others are not."""

    nodes: tuple[str, ...]
    failed: Mapping[str, str] = msgspec.field(default_factory=dict)
    """By node name; taking pods off such a node may help."""
    unresolvable: Mapping[str, str] = msgspec.field(default_factory=dict)
    """By node name; it may not."""


class ExtenderPrioritizeResult(msgspec.Struct, frozen=True):
    """Node names with their scores, 0 to 10 by the protocol."""

    scores: tuple[tuple[str, int], ...]


class Victims(msgspec.Struct, frozen=True):
    """Who has to go from a node, by UID, and how many of them a PodDisruptionBudget would have kept."""

    uids: tuple[str, ...]
    pdb_violations: int = 0


class ExtenderPreemptionResult(msgspec.Struct, frozen=True):
    """The nodes that are left to preempt on."""

    victims: Mapping[str, Victims]


class ExtenderCallFailed(msgspec.Struct, frozen=True):
    """The call has failed, or what came back is no answer."""

    message: str


class ExtenderFailed(Exception):
    """An extender has failed that matters; users read this text as it stands."""


ExtenderCall = FilterCall | PrioritizeCall | PreemptCall
ExtenderResult = ExtenderFilterResult | ExtenderPrioritizeResult | ExtenderPreemptionResult | ExtenderCallFailed
