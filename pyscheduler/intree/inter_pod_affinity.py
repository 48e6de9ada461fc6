"""InterPodAffinity: pods that want to be in the same topology domains as others, or in different ones."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from pyscheduler.api import (
    MAX_NODE_SCORE,
    NO_DOMAIN,
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
    NodeInfo,
    NodeTable,
    NodeToStatus,
    Normalizer,
    Pod,
    PodSignature,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    Rejection,
    ScorePlugin,
    Scores,
    Skip,
    StateKey,
    StatusError,
)
from pyscheduler.intree._problems import invalid, raise_for_problems
from pyscheduler.intree._term_matcher import POD_BLOCK, SMALL
from pyscheduler.intree.affinity.counts import (
    AffinityWeight,
    ExistingAntiAffinityCount,
    ExistingAntiAffinityKeys,
    IncomingPod,
    MatchingTermCount,
    MatchingTerms,
    PodsMatchingAllTerms,
    ScoringTermKeys,
)
from pyscheduler.intree.affinity.domain_counts import DomainCounts, count_by_topology
from pyscheduler.intree.affinity.hints import AffinityHints, all_match
from pyscheduler.intree.affinity.matching_terms import ExistingAntiAffinityTerms, MatchingTermsCache, ScoringTerms
from pyscheduler.intree.affinity.namespaces import NAMESPACE, NamespaceLister, labels_of
from pyscheduler.intree.affinity.terms import Labels, Peers, Term, WeightedTerm, affinity_terms, stated_requirements

AFFINITY_RULES_NOT_MATCHED = Rejection("node(s) didn't match pod affinity rules", resolvable=False)
ANTI_AFFINITY_RULES_NOT_MATCHED = Rejection("node(s) didn't match pod anti-affinity rules")
EXISTING_ANTI_AFFINITY_RULES_NOT_MATCHED = Rejection("node(s) didn't satisfy existing pods anti-affinity rules")

_MOST_WEIGHT = 100
_NO_MATCHING_TERMS = MatchingTerms(frozenset())
"""How an incoming pod is seen where no placed pod has terms."""
_SHAPES = 64
"""For how many shapes it is remembered what they draw."""


@dataclass(frozen=True, slots=True)
class InterPodAffinityArgs:
    """kubescheduler.config.k8s.io/v1 InterPodAffinityArgs.

    `hard_pod_affinity_weight` (0..100) is how much the required affinity of placed pods draws others to them;
    `ignore_preferred_terms_of_existing_pods` leaves pods unscored that prefer nothing themselves.
    """

    hard_pod_affinity_weight: Annotated[int, "int32"] = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def __post_init__(self) -> None:
        weight = self.hard_pod_affinity_weight
        if not 0 <= weight <= _MOST_WEIGHT:
            raise_for_problems([invalid("hardPodAffinityWeight", weight, f"not in valid range [0, {_MOST_WEIGHT}]")])


@dataclass(frozen=True, slots=True)
class ByRange(Normalizer):
    """The worst raw score becomes 0, the best 100; if all are the same, all become 0. Rounded down."""

    def span(self, scores: Scores) -> tuple[int, int]:
        return int(scores.min()), int(scores.max())

    def span_between(self, least: int, most: int) -> tuple[int, int]:
        return least, most

    def rescale(self, scores: Scores, span: tuple[int, int]) -> Scores:
        least, most = span
        if least == most:
            return np.zeros_like(scores)
        # In this order and in floats, as kube-scheduler does it: 29 of 100 becomes 28.
        return (MAX_NODE_SCORE * ((scores - least) / (most - least))).astype(np.int64)


@dataclass(frozen=True, slots=True)
class _PreFilterState:
    """What Filter goes by."""

    required_affinity: tuple[Term, ...]
    """The pod's required affinity."""
    required_anti_affinity: tuple[Term, ...]
    """Its required anti-affinity."""
    incoming_pod: IncomingPod
    nodes: NodeTable
    affinity_counts: DomainCounts
    """Placed pods that all of `required_affinity` speak of."""
    anti_affinity_counts: DomainCounts
    """Placed pods that terms of `required_anti_affinity` speak of."""
    existing_anti_affinity_counts: DomainCounts
    """Placed pods that keep it off by their required anti-affinity."""
    matches_itself: bool
    """Whether its own affinity speaks of the pod itself: then it may be the first of its kind."""

    @property
    def is_first(self) -> bool:
        """Whether the pod has no matching pods anywhere and needs none: its node need only have the topology keys."""
        return self.matches_itself and self.affinity_counts.total == 0

    def updated_with_pod(self, other: Pod, labels: Labels, pods: int) -> _PreFilterState:
        """What holds once `other` has come (`pods` = 1) to a node with these labels, or left it (-1)."""
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


_PRE_FILTER_STATE: StateKey[_PreFilterState] = StateKey("InterPodAffinity rules")
_TOPOLOGY_SCORE: StateKey[DomainCounts] = StateKey("InterPodAffinity pull")


class InterPodAffinity(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """Places pods by where other pods are: rejects nodes by required pod (anti-)affinity, the pod's own and that of
    placed pods, and prefers nodes by the preferred terms of both sides.

    Pods that are being deleted count. The namespaceSelector of the incoming pod's terms chooses namespaces by their
    labels and, besides, all of them if it would choose one without labels; so does kube-scheduler.
    """

    name = "InterPodAffinity"
    Args = InterPodAffinityArgs
    watches = (NAMESPACE,)
    reads = Reads.DOMAINS
    reads_claims = False
    reads_match_fields = False
    normalizer = ByRange()

    def __init__(self, args: InterPodAffinityArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._namespaces = NamespaceLister(handle)
        self._hints = AffinityHints(handle, self._namespaces)
        self._anti_affinity_cache = MatchingTermsCache(ExistingAntiAffinityTerms())
        self._scoring_cache = MatchingTermsCache(ScoringTerms(args.hard_pod_affinity_weight))
        self._weights: dict[
            tuple[PodSignature, tuple[str, ...]], tuple[IncomingPod | MatchingTerms, Mapping[str, AffinityWeight]]
        ] = {}
        self._weights_version = -1

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
        keys = _of_nodes(nodes, nodes.attribute_counts(ExistingAntiAffinityKeys()))
        if not keys and not terms.affinity and not terms.anti_affinity:
            return SKIP_SIGNATURE_GROUP
        incoming_pod = self._incoming_pod(pod)
        seen = self._anti_affinity_cache.of(incoming_pod, nodes, self._namespaces.version) if keys else incoming_pod
        existing_anti_affinity_counts = count_by_topology(
            nodes, {key: ExistingAntiAffinityCount(seen, key) for key in keys}
        )
        if not existing_anti_affinity_counts.total and not terms.affinity and not terms.anti_affinity:
            return SKIP
        cycle.charge_evaluations(len({term.key for term in terms.affinity}), nodes.total, "pod affinity")
        required_affinity = tuple(self._namespaces.resolved(term) for term in terms.affinity)
        required_anti_affinity = tuple(self._namespaces.resolved(term) for term in terms.anti_affinity)
        affinity_counts = PodsMatchingAllTerms(tuple(term.peers for term in required_affinity))
        cycle[_PRE_FILTER_STATE] = _PreFilterState(
            required_affinity,
            required_anti_affinity,
            incoming_pod,
            nodes,
            affinity_counts=count_by_topology(nodes, {term.key: affinity_counts for term in required_affinity}),
            anti_affinity_counts=count_by_topology(
                nodes,
                {k: MatchingTermCount(p) for k, p in _by_key(required_anti_affinity).items() if k in nodes.label_keys},
            ),
            existing_anti_affinity_counts=existing_anti_affinity_counts,
            matches_itself=all_match(required_affinity, pod.signature),
        )
        return None

    def add_pod(self, cycle: Cycle, pod: Pod, added: Pod, node: NodeInfo) -> None:
        cycle[_PRE_FILTER_STATE] = cycle[_PRE_FILTER_STATE].updated_with_pod(added, node.labels, 1)

    def remove_pod(self, cycle: Cycle, pod: Pod, removed: Pod, node: NodeInfo) -> None:
        cycle[_PRE_FILTER_STATE] = cycle[_PRE_FILTER_STATE].updated_with_pod(removed, node.labels, -1)

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        rules, labels = cycle[_PRE_FILTER_STATE], node.labels
        for key in rules.affinity_counts.keys:
            if key not in labels or (rules.affinity_counts.at(key, labels) <= 0 and not rules.is_first):
                return AFFINITY_RULES_NOT_MATCHED
        if rules.anti_affinity_counts.has_positive(labels):
            return ANTI_AFFINITY_RULES_NOT_MATCHED
        return (
            EXISTING_ANTI_AFFINITY_RULES_NOT_MATCHED
            if rules.existing_anti_affinity_counts.has_positive(labels)
            else None
        )

    def filter_cache_key(self, cycle: Cycle) -> Hashable:
        rules = cycle[_PRE_FILTER_STATE]
        return (
            rules.is_first,
            rules.affinity_counts.basis,
            rules.anti_affinity_counts.basis,
            rules.existing_anti_affinity_counts.basis,
        )

    def filter_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeToStatus:
        rules, verdicts = cycle[_PRE_FILTER_STATE], NodeToStatus(len(nodes))
        if rules.is_first:
            topologies = {id(topology): topology for topology in map(nodes.topology, rules.affinity_counts.keys)}
            for topology in topologies.values():
                verdicts.reject(topology.ids == NO_DOMAIN, AFFINITY_RULES_NOT_MATCHED)
        elif rules.required_affinity:
            verdicts.reject(~rules.affinity_counts.all_positive(nodes), AFFINITY_RULES_NOT_MATCHED)
        if rules.anti_affinity_counts.total:
            verdicts.reject(rules.anti_affinity_counts.any_positive(nodes), ANTI_AFFINITY_RULES_NOT_MATCHED)
        if rules.existing_anti_affinity_counts.total:
            verdicts.reject(
                rules.existing_anti_affinity_counts.any_positive(nodes), EXISTING_ANTI_AFFINITY_RULES_NOT_MATCHED
            )
        return verdicts

    # -- score ---------------------------------------------------------------------------------------------------

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        terms = affinity_terms(pod.signature)
        own = terms.preferred
        if self.args.ignore_preferred_terms_of_existing_pods and not own:
            return SKIP_SIGNATURE_GROUP
        carried = _of_nodes(nodes, nodes.attribute_counts(ScoringTermKeys(self.args.hard_pod_affinity_weight)))
        if not own and not carried:
            return SKIP_SIGNATURE_GROUP
        if terms.problem:  # PreFilter, which rejects such pods, may be off
            raise StatusError(f"failed to parse pod: {terms.problem}")
        every = self._affinity_weights(pod, tuple(carried), nodes)
        drawing = {key: every[key] for key in _of_nodes(nodes, every)}
        pull = count_by_topology(nodes, drawing)
        if not pull.total:
            # Weights may come to 0 together; nothing to score is only where there is nothing to weigh.
            terms_found = count_by_topology(nodes, {k: replace(d, weighed=False) for k, d in drawing.items()})
            if not terms_found.total:
                return SKIP
        cycle[_TOPOLOGY_SCORE] = pull
        return None

    def _affinity_weights(self, pod: Pod, carried: tuple[str, ...], nodes: NodeTable) -> Mapping[str, AffinityWeight]:
        """What is counted by each topology key, `carried` being those of placed pods; found once for a signature."""
        version = self._namespaces.version
        if version != self._weights_version or len(self._weights) >= _SHAPES:
            self._weights_version = version
            self._weights.clear()
        incoming_pod = self._incoming_pod(pod)
        seen = self._scoring_cache.of(incoming_pod, nodes, version) if carried else _NO_MATCHING_TERMS
        place = (pod.signature, carried)
        known = self._weights.get(place)
        if known is None or known[0] != seen:
            preferred: dict[str, list[WeightedTerm]] = {key: [] for key in carried}
            for term, weight in affinity_terms(pod.signature).preferred:
                preferred.setdefault(term.key, []).append(WeightedTerm(self._namespaces.resolved(term), weight))
            required_weight = self.args.hard_pod_affinity_weight
            drawing = {
                key: AffinityWeight(seen, key, tuple(preferred_terms), required_weight)
                for key, preferred_terms in preferred.items()
            }
            known = (seen, drawing)
            if not incoming_pod.is_large:
                self._weights[place] = known
        return known[1]

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return cycle[_TOPOLOGY_SCORE].sum(node.labels)

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        return cycle[_TOPOLOGY_SCORE].sums(nodes)

    def score_equivalence(self, cycle: Cycle) -> NodeEquivalence | None:
        return cycle[_TOPOLOGY_SCORE].likeness

    # -- namespaces ----------------------------------------------------------------------------------------------

    def _incoming_pod(self, pod: Pod) -> IncomingPod:
        return IncomingPod(pod.signature, labels_of(self._namespaces.get(pod.namespace)))


def _of_nodes(nodes: NodeTable, keys: Collection[str]) -> Collection[str]:
    """Those topology keys that nodes have: by the others, of which one pod may name thousands, nothing counts."""
    here = nodes.label_keys
    if len(keys) <= len(here):
        return [key for key in keys if key in here]
    return [key for key in here if key in keys]


def _by_key(terms: Iterable[Term]) -> dict[str, tuple[Peers, ...]]:
    """The peers of all terms that have the same topology key."""
    peers: dict[str, list[Peers]] = {}
    for term in terms:
        peers.setdefault(term.key, []).append(term.peers)
    return {key: tuple(meant) for key, meant in peers.items()}
