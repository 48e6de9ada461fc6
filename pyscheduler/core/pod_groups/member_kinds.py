"""Kinds of members of a pod group: those that are interchangeable, and what they take from each other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from pyscheduler.api.match import Selector, label_selector
from pyscheduler.api.objects import PodAffinity, PodAffinityTerm
from pyscheduler.api.pod import PodSignature, PodSignatureGroup
from pyscheduler.api.queued import QueuedPod

_BITS = 52
"""Number of kinds with a bit of their own, as many as a float holds exactly; others share one."""


@dataclass(eq=False)
class MemberKind:
    """Members that differ in labels and annotations only."""

    members: Sequence[QueuedPod]
    bit: int
    keys: frozenset[str]
    """Topology keys of the required pod affinity."""
    selectors: tuple[Selector | None, ...]
    """Selectors of the required pod affinity."""
    has_domain_rules: bool
    """True if pods may exclude the members from whole domains, or the members exclude other pods."""
    scarcity: float = 0.0
    """Number of members for each place that the nodes have for them before any member of the group is placed."""
    position: int = 0
    """Place among the kinds that are searched for."""
    fits_alone: bool = False
    """True if a node fits before any member of the group is placed."""
    chosen: int = 0
    """Number of members with a node, or left out."""
    partners: int = 0
    """Number of placed members that the kind has required affinity to."""
    awaited: int = 0
    """Number of members of other kinds that the kind has required affinity to and that have not been chosen."""

    @property
    def is_complete(self) -> bool:
        """True if all members have been chosen."""
        return self.chosen == len(self.members)

    @property
    def remaining(self) -> Sequence[QueuedPod]:
        """Members that have not been chosen."""
        return self.members[self.chosen :]

    def has_affinity_to(self, signature: PodSignature) -> bool:
        """Return True if the members have required affinity to pods of this signature."""
        matches = (selector is not None and selector.matches(signature.labels) for selector in self.selectors)
        return bool(self.selectors) and all(matches)


class Remaining(Collection[QueuedPod]):
    """Members of some kinds that have not been chosen, without a copy."""

    def __init__(self, kinds: Sequence[MemberKind], count: int) -> None:
        self._kinds = kinds
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[QueuedPod]:
        return (queued for kind in self._kinds for queued in kind.remaining)

    def __contains__(self, queued: object) -> bool:
        return any(queued is each for each in self)


def kinds_of(members: Iterable[QueuedPod]) -> list[MemberKind]:
    """Return the kinds of these members, in their order."""
    by_kind: dict[PodSignature | PodSignatureGroup, list[QueuedPod]] = {}
    for queued in members:
        by_kind.setdefault(_kind(queued.pod.signature), []).append(queued)
    kinds: list[MemberKind] = []
    for i, same in enumerate(by_kind.values()):
        signature = same[0].pod.signature
        terms = required_affinity(signature)
        keys, selectors = (each.topology_key for each in terms), (label_selector(each.label_selector) for each in terms)
        rules = domain_rules(signature) > 0
        kinds.append(MemberKind(same, 1 << i % _BITS, frozenset(keys), tuple(selectors), rules))
    return kinds


def may_fit_in_another_way(members: Iterable[PodSignature]) -> bool:
    """Return True if other nodes for some members may leave room for more of them.

    Equal members take the same from any node. Where they are decides only with required affinity to one another, and
    with several rules about domains: one alone allows as many whichever domain comes first.
    """
    signatures = {*members}
    if len({*map(_kind, signatures)}) > 1:
        return True
    return any(required_affinity(each) or domain_rules(each) > 1 for each in signatures)


def _kind(signature: PodSignature) -> PodSignature | PodSignatureGroup:
    """Return what the signatures of interchangeable members share: all but labels and annotations."""
    return signature.template if signature.spec is signature.template.spec else signature


def required_affinity(signature: PodSignature) -> Sequence[PodAffinityTerm]:
    """Return the terms of the required pod affinity."""
    return _required(signature.affinity.pod_affinity)


def required_anti_affinity(signature: PodSignature) -> Sequence[PodAffinityTerm]:
    """Return the terms of the required pod anti-affinity."""
    return _required(signature.affinity.pod_anti_affinity)


def domain_rules(signature: PodSignature) -> int:
    """Return the number of rules that exclude whole domains because of pods in them."""
    spread = signature.spec.topology_spread_constraints or ()
    hard = sum(each.when_unsatisfiable == "DoNotSchedule" for each in spread)
    return hard + len(required_anti_affinity(signature))


def _required(affinity: PodAffinity | None) -> Sequence[PodAffinityTerm]:
    return (affinity.required_during_scheduling_ignored_during_execution if affinity else None) or ()
