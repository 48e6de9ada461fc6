"""HTTP extenders as the core sees them: their settings, and the calls and results of their verbs.

An extender is a webhook that filters and scores nodes or restricts preemption, as with kube-scheduler. The core does no
I/O: a scheduling attempt yields the calls, and resumes with the results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from pyscheduler.api.objects import Container
from pyscheduler.api.pod import Pod
from pyscheduler.api.preemption import Candidate

EXTENDER = "Extender"
"""Rejector of a pod that lost nodes to an extender; as with kube-scheduler's pseudo plugin, any event may help."""


class Extender(msgspec.Struct, frozen=True):
    """Settings of one extender that decisions depend on."""

    url: str
    """Its name in messages."""
    place: int = 0
    """Index in the configuration's list of extenders."""
    filters: bool = False
    prioritizes: bool = False
    preempts: bool = False
    weight: int = 1
    """Factor of its scores."""
    ignorable: bool = False
    """True if a failed filter or preempt call does not fail the attempt."""
    managed: frozenset[str] = frozenset()
    """Resources that it manages: it is called for pods that request one of them; empty: for every pod."""

    def is_interested(self, pod: Pod) -> bool:
        """Return True if it must be called for the pod: a container requests or limits a resource that it manages."""
        if not self.managed:
            return True
        containers = (*pod.spec.containers, *(pod.spec.init_containers or ()))
        return any(not self.managed.isdisjoint(_resources(container)) for container in containers)


def _resources(container: Container) -> Iterable[str]:
    resources = container.resources
    return () if resources is None else (*(resources.requests or ()), *(resources.limits or ()))


class FilterCall(msgspec.Struct, frozen=True):
    """Filter call for these nodes; returns ExtenderFilterResult."""

    extender: Extender
    nodes: tuple[str, ...]


class PrioritizeCall(msgspec.Struct, frozen=True):
    """Prioritize call for these nodes; returns ExtenderPrioritizeResult."""

    extender: Extender
    nodes: tuple[str, ...]


class PreemptCall(msgspec.Struct, frozen=True):
    """Preempt call for these nodes and their victims; returns ExtenderPreemptionResult."""

    extender: Extender
    candidates: Mapping[str, Candidate]


class ExtenderFilterResult(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """Feasible nodes among those of the call, and the reasons against others."""

    nodes: tuple[str, ...]
    failed: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Reasons by node name; preemption may help on these nodes."""
    unresolvable: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Reasons by node name; preemption cannot help on these nodes."""


class ExtenderPrioritizeResult(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Scores by node name, 0 to 10 by the protocol."""

    scores: tuple[tuple[str, int], ...]


class Victims(msgspec.Struct, frozen=True):
    """UIDs of the victims on a node, and how many of them violate a PodDisruptionBudget."""

    uids: tuple[str, ...]
    pdb_violations: int = 0


class ExtenderPreemptionResult(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Nodes on which preemption may happen, with their victims."""

    victims: Mapping[str, Victims]


class ExtenderCallFailed(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The call failed or its response could not be parsed."""

    message: str


class ExtenderFailed(Exception):
    """A call to an extender that is not ignorable has failed; the text goes into the pod's event unchanged."""


def failure_of(result: object) -> ExtenderFailed:
    """Return the exception for a call that failed or has a result of another verb."""
    return ExtenderFailed(result.message if isinstance(result, ExtenderCallFailed) else "no answer")


ExtenderCall = FilterCall | PrioritizeCall | PreemptCall
ExtenderResult = ExtenderFilterResult | ExtenderPrioritizeResult | ExtenderPreemptionResult | ExtenderCallFailed
