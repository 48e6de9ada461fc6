"""InterPodAffinity: place pods in the same topology domains as other pods, or in different ones."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from pyscheduler.api import (
    MAX_NODE_SCORE,
    NODE,
    POD,
    SKIP,
    SKIP_SIGNATURE_GROUP,
    Action,
    ClusterEventWithHint,
    Cycle,
    FilterPlugin,
    Handle,
    NodeEquivalence,
    NodeFields,
    NodeInfo,
    NodeTable,
    NodeToStatus,
    Normalizer,
    Pod,
    PodCount,
    PodSignature,
    PodSignatureGroup,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    Rejection,
    ScorePlugin,
    Scores,
    Skip,
    StateKey,
    StatusError,
    packed,
)
from pyscheduler.intree._problems import invalid, raise_for_problems
from pyscheduler.intree._term_matcher import POD_BLOCK, SMALL
from pyscheduler.intree.affinity.counts import (
    AffinityWeight,
    ExistingAntiAffinityCount,
    ExistingAntiAffinityKeys,
    ExistingAntiAffinityTerms,
    IncomingPod,
    MatchingTermCount,
    MatchingTerms,
    PodsMatchingAllTerms,
    ScoringTermKeys,
    ScoringTerms,
)
from pyscheduler.intree.affinity.domain_counts import DomainCounts, count_by_topology
from pyscheduler.intree.affinity.hints import AffinityHints, all_match
from pyscheduler.intree.affinity.matching_terms import MatchingTermsCache
from pyscheduler.intree.affinity.namespaces import NAMESPACE, NamespaceLister, labels_of
from pyscheduler.intree.affinity.terms import Labels, Peers, Term, WeightedTerm, affinity_terms, stated_requirements

AFFINITY_RULES_NOT_MATCHED = Rejection("node(s) didn't match pod affinity rules", resolvable=False)
ANTI_AFFINITY_RULES_NOT_MATCHED = Rejection("node(s) didn't match pod anti-affinity rules")
EXISTING_ANTI_AFFINITY_RULES_NOT_MATCHED = Rejection("node(s) didn't satisfy existing pods anti-affinity rules")

_MAX_WEIGHT = 100
_NO_MATCHING_TERMS = MatchingTerms(frozenset())
"""Matching terms if no existing pod has any."""
_EXISTING_ANTI_AFFINITY_KEYS = ExistingAntiAffinityKeys()
_MAX_SIGNATURES = 1024
"""Signatures with cached weights at most."""


@dataclass(frozen=True, slots=True)
class InterPodAffinityArgs:
    """kubescheduler.config.k8s.io/v1 InterPodAffinityArgs.

    `hard_pod_affinity_weight` (0..100) is the weight of existing pods' required affinity in scores.
    `ignore_preferred_terms_of_existing_pods` skips scoring for pods without preferred terms of their own.
    """

    hard_pod_affinity_weight: Annotated[int, "int32"] = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def __post_init__(self) -> None:
        weight = self.hard_pod_affinity_weight
        if not 0 <= weight <= _MAX_WEIGHT:
            raise_for_problems([invalid("hardPodAffinityWeight", weight, f"not in valid range [0, {_MAX_WEIGHT}]")])


@dataclass(frozen=True, slots=True)
class ByRange(Normalizer):
    """Rescale the lowest raw score to 0 and the highest to 100, rounded down; if all are equal, all become 0."""

    def span(self, scores: Scores) -> tuple[int, int]:
        return int(scores.min()), int(scores.max())

    def span_between(self, least: int, most: int) -> tuple[int, int]:
        return least, most

    def rescale(self, scores: Scores, span: tuple[int, int]) -> Scores:
        least, most = span
        if least == most:
            return np.zeros_like(scores)
        # The order of operations and the floats are kube-scheduler's: 29 of 100 becomes 28.
        return (MAX_NODE_SCORE * ((scores - least) / (most - least))).astype(np.int64)


class _RequiredTerms(NamedTuple):
    """Required terms of an incoming pod, resolved for one version of the namespaces, and what they count by key."""

    version: int
    affinity: tuple[Term, ...]
    anti_affinity: tuple[Term, ...]
    affinity_counts: Mapping[str, PodsMatchingAllTerms]
    anti_affinity_counts: Mapping[str, MatchingTermCount]
    match_themselves: bool


@dataclass(frozen=True, slots=True)
class _PreFilterState:
    """State of the filter of one incoming pod."""

    required_affinity: tuple[Term, ...]
    """Required affinity of the incoming pod."""
    required_anti_affinity: tuple[Term, ...]
    """Required anti-affinity of the incoming pod."""
    incoming_pod: IncomingPod
    nodes: NodeTable
    affinity_counts: DomainCounts
    """Placed pods that match all of `required_affinity`."""
    anti_affinity_counts: DomainCounts
    """Placed pods that match terms of `required_anti_affinity`."""
    existing_anti_affinity_counts: DomainCounts
    """Placed pods with required anti-affinity that matches the incoming pod."""
    matches_itself: bool
    """True if the pod satisfies its own affinity, so that it may be the first of its group."""

    @property
    def equivalence(self) -> NodeEquivalence | None:
        """Equivalence of nodes with equal results; None in a dry run."""
        topologies: tuple[str, ...] = ()
        pods: tuple[PodCount, ...] = ()
        for counts in (self.affinity_counts, self.anti_affinity_counts, self.existing_anti_affinity_counts):
            equivalence = counts.equivalence
            if equivalence is None:
                return None
            topologies += equivalence.topologies
            pods += equivalence.counts
        return NodeEquivalence(topologies, pods)

    @property
    def cache_key(self) -> Hashable:
        """Cache key of the results: the domains with a number above 0, by count and topology key."""
        counts = (self.affinity_counts, self.anti_affinity_counts, self.existing_anti_affinity_counts)
        return (self.is_first, *[each.cache_key(lambda numbers: (numbers > 0).tobytes()) for each in counts])

    @property
    def is_first(self) -> bool:
        """Return True if the pod is the first of its group: its node needs the topology keys, but no matching pod."""
        return self.matches_itself and self.affinity_counts.total == 0

    def updated_with_pod(self, other: Pod, labels: Labels, pods: int) -> _PreFilterState:
        """Return the state after `other` was added (`pods` = 1) to a node with these labels, or removed (-1)."""
        affinity_counts, anti_affinity_counts, existing_anti_affinity_counts = (
            self.affinity_counts,
            self.anti_affinity_counts,
            self.existing_anti_affinity_counts,
        )
        for term in affinity_terms(other.signature).anti_affinity:
            if self.incoming_pod.is_matched_by(term):
                existing_anti_affinity_counts = existing_anti_affinity_counts.plus(self.nodes, term.key, labels, pods)
        if all_match(self.required_affinity, other.signature):
            for key in affinity_counts.keys:
                affinity_counts = affinity_counts.plus(self.nodes, key, labels, pods)
        for term in self.required_anti_affinity:
            if term.peers.include(other.signature):
                anti_affinity_counts = anti_affinity_counts.plus(self.nodes, term.key, labels, pods)
        return replace(
            self,
            affinity_counts=affinity_counts,
            anti_affinity_counts=anti_affinity_counts,
            existing_anti_affinity_counts=existing_anti_affinity_counts,
        )


_PRE_FILTER_STATE: StateKey[_PreFilterState] = StateKey("InterPodAffinity filter")
_TOPOLOGY_SCORE: StateKey[DomainCounts] = StateKey("InterPodAffinity score")


class InterPodAffinity(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """Reject nodes by required pod (anti-)affinity of the pod and of placed pods; score by the preferred terms of both.

    Terminating pods count. The namespaceSelector of an incoming pod's term selects namespaces by label.
    """

    name = "InterPodAffinity"
    checks_resizes = False
    Args = InterPodAffinityArgs
    watches = (NAMESPACE,)
    reads = Reads.DOMAINS
    reads_annotations = False
    reads_claims = False
    reads_match_fields = False
    node_fields = NodeFields.LABELS
    pre_reads_nodes = False
    normalizer = ByRange()

    def __init__(self, args: InterPodAffinityArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._namespaces = NamespaceLister(handle)
        self._hints = AffinityHints(handle, self._namespaces)
        self._anti_affinity_cache = MatchingTermsCache(ExistingAntiAffinityTerms())
        self._scoring_term_keys = ScoringTermKeys(args.hard_pod_affinity_weight)
        self._scoring_cache = MatchingTermsCache(ScoringTerms(args.hard_pod_affinity_weight))
        self._weights: dict[
            tuple[PodSignature, tuple[str, ...]], tuple[IncomingPod | MatchingTerms, Mapping[str, AffinityWeight]]
        ] = {}
        self._weights_version = -1
        self._last_incoming: tuple[PodSignature, IncomingPod] | None = None
        self._required: WeakKeyDictionary[PodSignature, _RequiredTerms] = WeakKeyDictionary()
        self._counts_of_existing: WeakKeyDictionary[
            PodSignature, tuple[IncomingPod | MatchingTerms, Mapping[str, ExistingAntiAffinityCount]]
        ] = WeakKeyDictionary()
        """Counts of existing anti-affinity by topology key, with the matching terms."""

    def sign_group(self, group: PodSignatureGroup) -> Hashable:
        affinity = group.spec.affinity
        terms = affinity and (affinity.pod_affinity, affinity.pod_anti_affinity)
        return packed(group.namespace, terms)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            ClusterEventWithHint(POD, Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE, self._hints.pod_changed),
            ClusterEventWithHint(NODE, Action.ADD | Action.UPDATE_NODE_LABEL | Action.DELETE, self._hints.node_changed),
            ClusterEventWithHint(
                NAMESPACE.kind, Action.ADD | Action.UPDATE | Action.DELETE, self._hints.namespace_changed
            ),
        )

    # -- filter --------------------------------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Rejection | Skip | None:
        if pod.signature.size > SMALL:
            cycle.charge_evaluations(stated_requirements(pod.signature), nodes.total, "pod affinity", POD_BLOCK)
        terms = affinity_terms(pod.signature)
        if terms.problem:
            return Rejection(f"parsing pod: {terms.problem}", resolvable=False)
        existing_keys = nodes.attribute_counts(_EXISTING_ANTI_AFFINITY_KEYS)
        if not existing_keys and not terms.affinity and not terms.anti_affinity:
            return SKIP_SIGNATURE_GROUP
        keys = _node_keys(nodes, existing_keys)
        if not keys and not terms.affinity and not terms.anti_affinity:
            return SKIP
        incoming_pod = self._incoming_pod(pod)
        existing_anti_affinity_counts = count_by_topology(
            nodes, self._existing_counts(pod.signature, incoming_pod, nodes, keys)
        )
        if not existing_anti_affinity_counts.total and not terms.affinity and not terms.anti_affinity:
            return SKIP
        required = self._required_terms(pod.signature)
        cycle.charge_evaluations(len(required.affinity_counts), nodes.total, "pod affinity")
        anti_affinity_counts = {
            key: required.anti_affinity_counts[key] for key in _node_keys(nodes, required.anti_affinity_counts)
        }
        cycle[_PRE_FILTER_STATE] = _PreFilterState(
            required.affinity,
            required.anti_affinity,
            incoming_pod,
            nodes,
            affinity_counts=count_by_topology(nodes, required.affinity_counts),
            anti_affinity_counts=count_by_topology(nodes, anti_affinity_counts),
            existing_anti_affinity_counts=existing_anti_affinity_counts,
            matches_itself=required.match_themselves,
        )
        return None

    def _existing_counts(
        self, pod: PodSignature, incoming_pod: IncomingPod, nodes: NodeTable, keys: Collection[str]
    ) -> Mapping[str, ExistingAntiAffinityCount]:
        """Return the counts of existing anti-affinity, by topology key; the same objects until other terms match."""
        if not keys:
            return {}
        matching = self._anti_affinity_cache.of(pod, incoming_pod, nodes, self._namespaces.version)
        cached = self._counts_of_existing.get(pod)
        # Comparing takes long, and the terms are usually the same object.
        if cached is None or not (cached[0] is matching or cached[0] == matching) or cached[1].keys() != {*keys}:
            cached = (matching, {key: ExistingAntiAffinityCount(matching, key) for key in keys})
            if not matching.is_large:
                self._counts_of_existing[pod] = cached
        return cached[1]

    def _required_terms(self, signature: PodSignature) -> _RequiredTerms:
        """Return the required terms of an incoming pod; cached until a namespace changes."""
        version, cached = self._namespaces.version, self._required.get(signature)
        if cached is None or cached.version != version:
            terms = affinity_terms(signature)
            affinity = tuple(self._namespaces.resolved(term) for term in terms.affinity)
            anti_affinity = tuple(self._namespaces.resolved(term) for term in terms.anti_affinity)
            all_terms = PodsMatchingAllTerms(tuple(term.peers for term in affinity))
            cached = self._required[signature] = _RequiredTerms(
                version,
                affinity,
                anti_affinity,
                {term.key: all_terms for term in affinity},
                {key: MatchingTermCount(peers) for key, peers in _by_key(anti_affinity).items()},
                match_themselves=all_match(affinity, signature),
            )
        return cached

    def add_pod(self, cycle: Cycle, pod: Pod, added: Pod, node: NodeInfo) -> None:
        cycle[_PRE_FILTER_STATE] = cycle[_PRE_FILTER_STATE].updated_with_pod(added, node.labels, 1)

    def remove_pod(self, cycle: Cycle, pod: Pod, removed: Pod, node: NodeInfo) -> None:
        cycle[_PRE_FILTER_STATE] = cycle[_PRE_FILTER_STATE].updated_with_pod(removed, node.labels, -1)

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        state, labels = cycle[_PRE_FILTER_STATE], node.labels
        for key in state.affinity_counts.keys:
            if key not in labels or (state.affinity_counts.at(key, labels) <= 0 and not state.is_first):
                return AFFINITY_RULES_NOT_MATCHED
        if state.anti_affinity_counts.has_positive(labels):
            return ANTI_AFFINITY_RULES_NOT_MATCHED
        return (
            EXISTING_ANTI_AFFINITY_RULES_NOT_MATCHED
            if state.existing_anti_affinity_counts.has_positive(labels)
            else None
        )

    def filter_cache_key(self, cycle: Cycle) -> Hashable:
        return cycle[_PRE_FILTER_STATE].cache_key

    def filter_equivalence(self, cycle: Cycle) -> NodeEquivalence | None:
        return cycle[_PRE_FILTER_STATE].equivalence

    def filter_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeToStatus:
        state, statuses = cycle[_PRE_FILTER_STATE], NodeToStatus(len(nodes))
        if state.is_first:
            statuses.reject(~state.affinity_counts.all_labelled(nodes), AFFINITY_RULES_NOT_MATCHED)
        elif state.required_affinity:
            statuses.reject(~state.affinity_counts.all_positive(nodes), AFFINITY_RULES_NOT_MATCHED)
        if state.anti_affinity_counts.total:
            statuses.reject(state.anti_affinity_counts.any_positive(nodes), ANTI_AFFINITY_RULES_NOT_MATCHED)
        if state.existing_anti_affinity_counts.total:
            statuses.reject(
                state.existing_anti_affinity_counts.any_positive(nodes), EXISTING_ANTI_AFFINITY_RULES_NOT_MATCHED
            )
        return statuses

    # -- score ---------------------------------------------------------------------------------------------------

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        terms = affinity_terms(pod.signature)
        own = terms.preferred
        if self.args.ignore_preferred_terms_of_existing_pods and not own:
            return SKIP_SIGNATURE_GROUP
        all_keys = nodes.attribute_counts(self._scoring_term_keys)
        if not own and not all_keys:
            return SKIP_SIGNATURE_GROUP
        existing_keys = _node_keys(nodes, all_keys)
        if not own and not existing_keys:
            return SKIP
        if terms.problem:  # PreFilter, which rejects such pods, may be disabled
            raise StatusError(f"failed to parse pod: {terms.problem}")
        all_weights = self._affinity_weights(pod, tuple(existing_keys), nodes)
        weights = {key: all_weights[key] for key in _node_keys(nodes, all_weights)}
        counts = count_by_topology(nodes, weights)
        if not counts.total:
            # Weights may cancel out to 0; Skip is right only if no term matches at all.
            terms_found = count_by_topology(nodes, {k: replace(d, weighed=False) for k, d in weights.items()})
            if not terms_found.total:
                return SKIP
        cycle[_TOPOLOGY_SCORE] = counts
        return None

    def _affinity_weights(
        self, pod: Pod, existing_keys: tuple[str, ...], nodes: NodeTable
    ) -> Mapping[str, AffinityWeight]:
        """Return the weights by topology key, `existing_keys` being the keys of existing pods; cached by signature."""
        version = self._namespaces.version
        if version != self._weights_version or len(self._weights) >= _MAX_SIGNATURES:
            self._weights_version = version
            self._weights.clear()
        incoming_pod = self._incoming_pod(pod)
        matching: IncomingPod | MatchingTerms = _NO_MATCHING_TERMS
        if existing_keys:
            matching = self._scoring_cache.of(pod.signature, incoming_pod, nodes, version)
        cache_key = (pod.signature, existing_keys)
        cached = self._weights.get(cache_key)
        if cached is None or cached[0] != matching:
            preferred: dict[str, list[WeightedTerm]] = {key: [] for key in existing_keys}
            for term, weight in affinity_terms(pod.signature).preferred:
                preferred.setdefault(term.key, []).append(WeightedTerm(self._namespaces.resolved(term), weight))
            required_weight = self.args.hard_pod_affinity_weight
            weights = {
                key: AffinityWeight(matching, key, tuple(preferred_terms), required_weight)
                for key, preferred_terms in preferred.items()
            }
            cached = (matching, weights)
            if not incoming_pod.is_large:
                self._weights[cache_key] = cached
        return cached[1]

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return cycle[_TOPOLOGY_SCORE].sum(node.labels)

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        return cycle[_TOPOLOGY_SCORE].sums(nodes)

    def score_cache_key(self, cycle: Cycle) -> Hashable:
        return cycle[_TOPOLOGY_SCORE].cache_key(lambda numbers: numbers.tobytes())

    def score_equivalence(self, cycle: Cycle) -> NodeEquivalence | None:
        return cycle[_TOPOLOGY_SCORE].equivalence

    # -- namespaces ----------------------------------------------------------------------------------------------

    def _incoming_pod(self, pod: Pod) -> IncomingPod:
        """Return the pod with its namespace's labels; the same object for successive pods of a signature."""
        last, labels = self._last_incoming, labels_of(self._namespaces.get(pod.namespace))
        if last is not None and last[0] is pod.signature and last[1].namespace_labels == labels:
            return last[1]
        incoming = IncomingPod.of(pod.signature, labels)
        self._last_incoming = None if pod.is_large else (pod.signature, incoming)
        return incoming


def _node_keys(nodes: NodeTable, keys: Collection[str]) -> Collection[str]:
    """Return the keys that nodes have as labels. The others, of which one pod may name thousands, never count."""
    here = nodes.label_keys
    if len(keys) <= len(here):
        return [key for key in keys if key in here]
    return [key for key in here if key in keys]


def _by_key(terms: Iterable[Term]) -> dict[str, tuple[Peers, ...]]:
    """Return the peers of the terms, by topology key."""
    peers: dict[str, list[Peers]] = {}
    for term in terms:
        peers.setdefault(term.key, []).append(term.peers)
    return {key: tuple(grouped) for key, grouped in peers.items()}
