"""Pod affinity terms, compiled once per pod signature.

A term selects pods (`Peers`) in the same domain of a topology key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar
from weakref import WeakKeyDictionary

from pyscheduler.api import PodSignature, Selector
from pyscheduler.api.match import SelectorError
from pyscheduler.api.objects import LabelSelector, PodAffinity, PodAffinityTerm
from pyscheduler.intree._label_selectors import aggregate, read_selector

Labels = Mapping[str, str]
T = TypeVar("T")
NO_LABELS: Labels = MappingProxyType({})
_terms_by_signature: WeakKeyDictionary[PodSignature, AffinityTerms] = WeakKeyDictionary()
"""An entry is dropped with the last pod of its signature: terms can take megabytes."""


class LabelledPod(Protocol):
    """The properties of a pod by which terms select it."""

    @property
    def namespace(self) -> str: ...

    @property
    def labels(self) -> Labels: ...


@dataclass(frozen=True, slots=True)
class Peers:
    """The pods that a term selects, by namespace and labels; a selector of None matches no pod."""

    namespaces: frozenset[str]
    namespace_selector: Selector | None
    selector: Selector | None
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Counts are looked up by peers in every attempt, and hashing many strings is slow.
        object.__setattr__(self, "_hash", hash((self.namespaces, self.namespace_selector, self.selector)))

    def __hash__(self) -> int:
        return self._hash

    def include(self, pod: LabelledPod, namespace_labels: Labels = NO_LABELS) -> bool:
        """Return True if the term selects the pod, in a namespace with these labels."""
        if pod.namespace not in self.namespaces:
            chosen = self.namespace_selector
            if chosen is None or not chosen.matches(namespace_labels):
                return False
        return self.selector is not None and self.selector.matches(pod.labels)

    @property
    def selects_namespaces(self) -> bool:
        """Return True if namespaces are selected by label: `{}` selects all namespaces, an absent selector none."""
        return self.namespace_selector is not None and bool(self.namespace_selector.requirements)


class Term(NamedTuple):
    """`peers` in the same domain of a topology key."""

    key: str
    peers: Peers


class WeightedTerm(NamedTuple):
    """A preferred term; a weight below 0 is anti-affinity."""

    term: Term
    weight: int


@dataclass(frozen=True, slots=True)
class AffinityTerms:
    """Compiled pod affinity of a signature, preferred terms as (term, weight >= 0).

    A list that cannot be parsed is empty, and `problem` holds the error in kube-scheduler's words.
    """

    affinity: tuple[Term, ...]
    anti_affinity: tuple[Term, ...]
    preferred_affinity: tuple[WeightedTerm, ...]
    preferred_anti_affinity: tuple[WeightedTerm, ...]
    problem: str = ""

    @property
    def preferred(self) -> tuple[WeightedTerm, ...]:
        """All preferred terms, anti-affinity with negative weights."""
        if not self.preferred_anti_affinity:
            return self.preferred_affinity
        return self.preferred_affinity + tuple(WeightedTerm(t, -weight) for t, weight in self.preferred_anti_affinity)


NO_TERMS = AffinityTerms((), (), (), ())


def affinity_terms(signature: PodSignature) -> AffinityTerms:
    """Return the compiled podAffinity and podAntiAffinity of a signature."""
    affinity = signature.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    terms = _terms_by_signature.get(signature)
    if terms is None:
        terms = _terms_by_signature[signature] = _compiled(signature)
    return terms


def stated_requirements(signature: PodSignature) -> int:
    """Return the number of terms plus the requirements beyond the first of each, without compiling them."""
    number = 0
    for kind in (signature.affinity.pod_affinity, signature.affinity.pod_anti_affinity):
        if kind is not None:
            stated = [*(kind.required_during_scheduling_ignored_during_execution or ())]
            preferred = kind.preferred_during_scheduling_ignored_during_execution or ()
            stated += [weighted.pod_affinity_term for weighted in preferred]
            for term in stated:
                number += max(1, _size(term.label_selector)) + _size(term.namespace_selector)
    return number


def _size(selector: LabelSelector | None) -> int:
    return len(selector.match_labels or ()) + len(selector.match_expressions or ()) if selector is not None else 0


def _compiled(signature: PodSignature) -> AffinityTerms:
    problems: list[str] = []

    def read(name: str, compile_one: Callable[[Any], T], source: Sequence[Any] | None) -> tuple[T, ...]:
        try:
            return tuple(compile_one(term) for term in source or ())
        except SelectorError as error:
            problems.append(f"{name}: {error}")
            return ()

    def term(source: PodAffinityTerm) -> Term:
        return _term(signature.namespace, source)

    def weighted(source: Any) -> WeightedTerm:
        return WeightedTerm(term(source.pod_affinity_term), source.weight)

    affinity = signature.affinity.pod_affinity or PodAffinity()
    anti_affinity = signature.affinity.pod_anti_affinity or PodAffinity()
    terms = AffinityTerms(
        read("requiredAffinityTerms", term, affinity.required_during_scheduling_ignored_during_execution),
        read("requiredAntiAffinityTerms", term, anti_affinity.required_during_scheduling_ignored_during_execution),
        read("preferredAffinityTerms", weighted, affinity.preferred_during_scheduling_ignored_during_execution),
        read(
            "preferredAntiAffinityTerms", weighted, anti_affinity.preferred_during_scheduling_ignored_during_execution
        ),
    )
    return replace(terms, problem=aggregate(problems)) if problems else terms


def _term(own_namespace: str, source: PodAffinityTerm) -> Term:
    selector = read_selector(source.label_selector)
    named = frozenset(source.namespaces or ())
    if not named and source.namespace_selector is None:
        named = frozenset((own_namespace,))
    return Term(source.topology_key, Peers(named, read_selector(source.namespace_selector), selector))
