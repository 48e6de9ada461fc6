"""InterPodAffinity: pods that want to be in the same topology domains as others, or in different ones."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from pyscheduler.api import (
    MAX_NODE_SCORE,
    MISSING,
    NODE,
    POD,
    SKIP,
    SKIP_TEMPLATE,
    Action,
    Cycle,
    FilterPlugin,
    Handle,
    Interest,
    Likeness,
    NodeInfo,
    NodeTable,
    Normalizer,
    Pod,
    PodShape,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    Rejection,
    ScorePlugin,
    Scores,
    Skip,
    StateKey,
    StatusError,
    Verdicts,
)
from pyscheduler.intree._problems import invalid, refuse
from pyscheduler.intree._term_matcher import POD_BLOCK, SMALL
from pyscheduler.intree.affinity.counts import (
    Drawing,
    DrawingKeys,
    KeepingOff,
    KeepingOffKeys,
    Meant,
    MeantByAll,
    Newcomer,
    TimesMeant,
)
from pyscheduler.intree.affinity.domain_counts import DomainCounts, counted
from pyscheduler.intree.affinity.hints import AffinityHints, all_match
from pyscheduler.intree.affinity.namespaces import NAMESPACE, Namespaces, labels_of
from pyscheduler.intree.affinity.seen import DrawingTerms, KeepingOffTerms, Sight
from pyscheduler.intree.affinity.terms import Labels, Peers, Term, Weighted, affinity_terms, stated_requirements

NOT_NEAR = Rejection("node(s) didn't match pod affinity rules", resolvable=False)
NOT_APART = Rejection("node(s) didn't match pod anti-affinity rules")
KEPT_OFF = Rejection("node(s) didn't satisfy existing pods anti-affinity rules")

_MOST_WEIGHT = 100
_NOBODY_SPEAKS = Meant(frozenset())
"""How a newcomer is seen where no placed pod has terms."""
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
            refuse([invalid("hardPodAffinityWeight", weight, f"not in valid range [0, {_MOST_WEIGHT}]")])


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
class _Rules:
    """What Filter goes by."""

    near: tuple[Term, ...]
    """The pod's required affinity."""
    apart: tuple[Term, ...]
    """Its required anti-affinity."""
    newcomer: Newcomer
    nodes: NodeTable
    friends: DomainCounts
    """Placed pods that all of `near` speak of."""
    strangers: DomainCounts
    """Placed pods that terms of `apart` speak of."""
    keepers: DomainCounts
    """Placed pods that keep it off by their required anti-affinity."""
    may_be_first: bool
    """Whether its own affinity speaks of the pod itself: then it may be the first of its kind."""

    @property
    def is_first(self) -> bool:
        """Whether the pod has no friends anywhere and needs none: its node need only have the topology keys."""
        return self.may_be_first and self.friends.total == 0

    def shifted(self, other: Pod, labels: Labels, pods: int) -> _Rules:
        """What holds once `other` has come (`pods` = 1) to a node with these labels, or left it (-1)."""
        friends, strangers, keepers = self.friends, self.strangers, self.keepers
        for term in affinity_terms(other.shape).anti_affinity:
            if self.newcomer.is_meant_by(term):
                keepers = keepers.plus(self.nodes, term.key, labels, pods)
        if all_match(self.near, other.shape):
            for key in friends.keys:
                friends = friends.plus(self.nodes, key, labels, pods)
        for term in self.apart:
            if term.peers.include(other.shape):
                strangers = strangers.plus(self.nodes, term.key, labels, pods)
        return replace(self, friends=friends, strangers=strangers, keepers=keepers)


_RULES: StateKey[_Rules] = StateKey("InterPodAffinity rules")
_PULL: StateKey[DomainCounts] = StateKey("InterPodAffinity pull")


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
    reads_named_nodes = False
    normalizer = ByRange()

    def __init__(self, args: InterPodAffinityArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._namespaces = Namespaces(handle)
        self._hints = AffinityHints(handle, self._namespaces)
        self._kept_off = Sight(KeepingOffTerms())
        self._drawn_to = Sight(DrawingTerms(args.hard_pod_affinity_weight))
        self._drawn: dict[tuple[PodShape, tuple[str, ...]], tuple[Newcomer | Meant, Mapping[str, Drawing]]] = {}
        self._drawn_at = -1

    def interests(self) -> Sequence[Interest]:
        return (
            Interest(POD, Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE, self._hints.pod_changed),
            Interest(NODE, Action.ADD | Action.UPDATE_NODE_LABEL | Action.DELETE, self._hints.node_changed),
            Interest(NAMESPACE.kind, Action.ADD | Action.UPDATE | Action.DELETE, self._hints.namespace_changed),
        )

    # -- filter --------------------------------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Rejection | Skip | None:
        if pod.shape.size > SMALL:
            cycle.spend(stated_requirements(pod.shape), nodes.total, "pod affinity", POD_BLOCK)
        terms = affinity_terms(pod.shape)
        if terms.problem:
            return Rejection(f"parsing pod: {terms.problem}", resolvable=False)
        keys = _of_nodes(nodes, nodes.carried(KeepingOffKeys()))
        if not keys and not terms.affinity and not terms.anti_affinity:
            return SKIP_TEMPLATE
        newcomer = self._newcomer(pod)
        seen = self._kept_off.of(newcomer, nodes, self._namespaces.version) if keys else newcomer
        keepers = counted(nodes, {key: KeepingOff(seen, key) for key in keys})
        if not keepers.total and not terms.affinity and not terms.anti_affinity:
            return SKIP
        cycle.spend(len({term.key for term in terms.affinity}), nodes.total, "pod affinity")
        near = tuple(self._namespaces.resolved(term) for term in terms.affinity)
        apart = tuple(self._namespaces.resolved(term) for term in terms.anti_affinity)
        friends = MeantByAll(tuple(term.peers for term in near))
        cycle[_RULES] = _Rules(
            near,
            apart,
            newcomer,
            nodes,
            friends=counted(nodes, {term.key: friends for term in near}),
            strangers=counted(nodes, {k: TimesMeant(p) for k, p in _by_key(apart).items() if k in nodes.label_keys}),
            keepers=keepers,
            may_be_first=all_match(near, pod.shape),
        )
        return None

    def add_pod(self, cycle: Cycle, pod: Pod, added: Pod, node: NodeInfo) -> None:
        cycle[_RULES] = cycle[_RULES].shifted(added, node.labels, 1)

    def remove_pod(self, cycle: Cycle, pod: Pod, removed: Pod, node: NodeInfo) -> None:
        cycle[_RULES] = cycle[_RULES].shifted(removed, node.labels, -1)

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        rules, labels = cycle[_RULES], node.labels
        for key in rules.friends.keys:
            if key not in labels or (rules.friends.at(key, labels) <= 0 and not rules.is_first):
                return NOT_NEAR
        if rules.strangers.above_0(labels):
            return NOT_APART
        return KEPT_OFF if rules.keepers.above_0(labels) else None

    def filter_basis(self, cycle: Cycle) -> Hashable:
        rules = cycle[_RULES]
        return (rules.is_first, rules.friends.basis, rules.strangers.basis, rules.keepers.basis)

    def filter_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Verdicts:
        rules, verdicts = cycle[_RULES], Verdicts(len(nodes))
        if rules.is_first:
            topologies = {id(topology): topology for topology in map(nodes.topology, rules.friends.keys)}
            for topology in topologies.values():
                verdicts.reject(topology.ids == MISSING, NOT_NEAR)
        elif rules.near:
            verdicts.reject(~rules.friends.all_above_0(nodes), NOT_NEAR)
        if rules.strangers.total:
            verdicts.reject(rules.strangers.any_above_0(nodes), NOT_APART)
        if rules.keepers.total:
            verdicts.reject(rules.keepers.any_above_0(nodes), KEPT_OFF)
        return verdicts

    # -- score ---------------------------------------------------------------------------------------------------

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        terms = affinity_terms(pod.shape)
        own = terms.preferred
        if self.args.ignore_preferred_terms_of_existing_pods and not own:
            return SKIP_TEMPLATE
        carried = _of_nodes(nodes, nodes.carried(DrawingKeys(self.args.hard_pod_affinity_weight)))
        if not own and not carried:
            return SKIP_TEMPLATE
        if terms.problem:  # PreFilter, which rejects such pods, may be off
            raise StatusError(f"failed to parse pod: {terms.problem}")
        every = self._drawing(pod, tuple(carried), nodes)
        drawing = {key: every[key] for key in _of_nodes(nodes, every)}
        pull = counted(nodes, drawing)
        if not pull.total:
            # Weights may come to 0 together; nothing to score is only where there is nothing to weigh.
            terms_found = counted(nodes, {k: replace(d, weighed=False) for k, d in drawing.items()})
            if not terms_found.total:
                return SKIP
        cycle[_PULL] = pull
        return None

    def _drawing(self, pod: Pod, carried: tuple[str, ...], nodes: NodeTable) -> Mapping[str, Drawing]:
        """What is counted by each topology key, `carried` being those of placed pods; found once for a shape."""
        version = self._namespaces.version
        if version != self._drawn_at or len(self._drawn) >= _SHAPES:
            self._drawn_at = version
            self._drawn.clear()
        newcomer = self._newcomer(pod)
        seen = self._drawn_to.of(newcomer, nodes, version) if carried else _NOBODY_SPEAKS
        place = (pod.shape, carried)
        known = self._drawn.get(place)
        if known is None or known[0] != seen:
            preferred: dict[str, list[Weighted]] = {key: [] for key in carried}
            for term, weight in affinity_terms(pod.shape).preferred:
                preferred.setdefault(term.key, []).append(Weighted(self._namespaces.resolved(term), weight))
            required_weight = self.args.hard_pod_affinity_weight
            drawing = {key: Drawing(seen, key, tuple(wishes), required_weight) for key, wishes in preferred.items()}
            known = (seen, drawing)
            if not newcomer.is_large:
                self._drawn[place] = known
        return known[1]

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return cycle[_PULL].sum(node.labels)

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        return cycle[_PULL].sums(nodes)

    def score_likeness(self, cycle: Cycle) -> Likeness | None:
        return cycle[_PULL].likeness

    # -- namespaces ----------------------------------------------------------------------------------------------

    def _newcomer(self, pod: Pod) -> Newcomer:
        return Newcomer(pod.shape, labels_of(self._namespaces.get(pod.namespace)))


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
