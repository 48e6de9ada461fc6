"""Compiled topology spread constraints: a pod's own, or the profile's defaults for pods without any."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple
from weakref import WeakKeyDictionary

from pyscheduler.api import PodCount, PodSelection, PodSignature, Requirement, Selector, required_labels
from pyscheduler.api.objects import TopologySpreadConstraint
from pyscheduler.intree._label_selectors import read_selector
from pyscheduler.intree._term_matcher import MappingRows, TermMatcher, are_many_requirements
from pyscheduler.intree.spread.default_selector import DefaultSelector, DefaultSelectors

HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
HOSTNAME = "kubernetes.io/hostname"
_HONOR = "Honor"


@dataclass(frozen=True, slots=True)
class MatchingPodCount(PodCount):
    """Count of a namespace's pods that the selector matches; terminating pods do not count."""

    namespace: str
    selector: Selector

    @property
    def terminating(self) -> bool:
        return False

    @property
    def selection(self) -> PodSelection:
        return [required_labels(self.selector, (self.namespace,))]

    def of(self, signature: PodSignature) -> int:
        return int(signature.namespace == self.namespace and self.selector.matches(signature.labels))

    @property
    def is_large(self) -> bool:
        return are_many_requirements(self.selector.requirements)

    def of_all(self, signatures: Sequence[PodSignature]) -> Sequence[int]:
        if not self.is_large:
            return [self.of(signature) for signature in signatures]
        labels: list[Mapping[str, str]] = [signature.labels for signature in signatures]
        matched = TermMatcher([self.selector.requirements]).any(MappingRows(labels)).tolist()
        return [
            match and signature.namespace == self.namespace
            for match, signature in zip(matched, signatures, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """A constraint of the pods of one signature."""

    key: str
    max_skew: int
    min_domains: int
    honors_affinity: bool
    honors_taints: bool
    selector: Selector | None = None
    """None matches no pod."""
    count: MatchingPodCount | None = None
    """None counts no pod."""
    counts_large: bool = False
    """True if `count` is large."""
    self_match_count: int = 0
    """1 if the constraint counts the incoming pod itself, else 0."""

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Return True if the constraint's selector matches these labels."""
        return self.selector is not None and self.selector.matches(labels)


SpreadConstraints = tuple[SpreadConstraint, ...]


class _DefaultConstraints(NamedTuple):
    selected: DefaultSelector
    spreads: SpreadConstraints


class ConstraintCache:
    """Constraints of one kind (HARD or SOFT), cached by pod signature."""

    def __init__(self, action: str, defaults: Iterable[TopologySpreadConstraint], selectors: DefaultSelectors) -> None:
        self._action = action
        self._defaults = tuple(_compiled(c) for c in defaults if c.when_unsatisfiable == action)
        self._selectors = selectors
        self._own: WeakKeyDictionary[PodSignature, SpreadConstraints] = WeakKeyDictionary()
        self._default_constraints: WeakKeyDictionary[PodSignature, _DefaultConstraints] = WeakKeyDictionary()

    def of(self, signature: PodSignature) -> SpreadConstraints:
        """Return the constraints in the order of the spec. SelectorError if one of the pod's own is invalid."""
        stated = signature.spec.topology_spread_constraints
        if not stated:
            return self._by_default(signature) if self._defaults else ()
        own = self._own.get(signature)
        if own is None:
            mine = (c for c in stated if c.when_unsatisfiable == self._action)
            own = self._own[signature] = tuple(
                _for_pods(_compiled(c), _selector(c, signature), signature) for c in mine
            )
        return own

    @property
    def has_defaults(self) -> bool:
        """Return True if there are constraints for pods without any of their own."""
        return bool(self._defaults)

    def follow_labels(self, signature: PodSignature) -> bool:
        """Return True if default constraints may apply, so that the pod's labels decide if any do."""
        return bool(self._defaults) and not signature.spec.topology_spread_constraints

    def _by_default(self, signature: PodSignature) -> SpreadConstraints:
        cached = self._default_constraints.get(signature)
        selected = self._selectors.of(signature, None if cached is None else cached.selected)
        if cached is not None and cached.selected is selected:
            return cached.spreads
        selector = selected.selector
        if cached is not None and cached.selected.selector is selector:
            spreads = cached.spreads
        else:
            spreads = tuple([_for_pods(each, selector, signature) for each in self._defaults if selector.requirements])
        self._default_constraints[signature] = _DefaultConstraints(selected, spreads)
        return spreads


def _compiled(source: TopologySpreadConstraint) -> SpreadConstraint:
    return SpreadConstraint(
        source.topology_key,
        source.max_skew,
        1 if source.min_domains is None else source.min_domains,
        source.node_affinity_policy in (None, _HONOR),
        source.node_taints_policy == _HONOR,
    )


def _for_pods(constraint: SpreadConstraint, selector: Selector | None, signature: PodSignature) -> SpreadConstraint:
    """Return the constraint with the selector, for the pods of the signature."""
    # A selector without requirements matches every pod, but kube-scheduler counts none for it.
    count = MatchingPodCount(signature.namespace, selector) if selector is not None and selector.requirements else None
    matches_itself = selector is not None and selector.matches(signature.labels)
    return replace(
        constraint,
        selector=selector,
        count=count,
        counts_large=count is not None and count.is_large,
        self_match_count=int(matches_itself),
    )


def _selector(source: TopologySpreadConstraint, signature: PodSignature) -> Selector | None:
    """Return the constraint's selector with the pod's own values of `matchLabelKeys` added."""
    selector = read_selector(source.label_selector)
    if selector is None:
        return None
    same = {key: signature.labels[key] for key in source.match_label_keys or () if key in signature.labels}
    return Selector((*selector.requirements, *(Requirement(key, "In", (value,)) for key, value in same.items())))
