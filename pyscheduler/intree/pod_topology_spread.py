"""PodTopologySpread: spread matching pods evenly over zones, hosts or any other node label (KEP-895)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from pyscheduler.api import (
    NODE,
    POD,
    SKIP_SIGNATURE,
    SKIP_SIGNATURE_GROUP,
    TARGET_POD,
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    Cycle,
    FilterPlugin,
    Handle,
    NodeEquivalence,
    NodeFields,
    NodeInfo,
    NodeObject,
    NodeTable,
    NodeToStatus,
    Pod,
    PodSignature,
    PodSignatureGroup,
    PreFilterPlugin,
    PreScorePlugin,
    QueueingHint,
    Reads,
    Rejection,
    ScorePlugin,
    Scores,
    Skip,
    StateKey,
    packed,
)
from pyscheduler.api.match import SelectorError
from pyscheduler.api.objects import TopologySpreadConstraint
from pyscheduler.api.outcome import StatusError
from pyscheduler.intree._hints import queue_if
from pyscheduler.intree._label_selectors import key_rules
from pyscheduler.intree._problems import duplicate, forbidden, invalid, raise_for_problems, required, unsupported
from pyscheduler.intree._term_matcher import POD_BLOCK, SMALL
from pyscheduler.intree.spread.constraints import (
    HARD,
    HOSTNAME,
    SOFT,
    ConstraintCache,
    SpreadConstraint,
    SpreadConstraints,
)
from pyscheduler.intree.spread.counts import Skew, skew_equivalence
from pyscheduler.intree.spread.default_selector import KINDS, DefaultSelectors
from pyscheduler.intree.spread.nodes import EligibleDomainsCache, matches_policies, node_matches_policies
from pyscheduler.intree.spread.score import SpreadNormalizer, SpreadScore, SpreadScores

SYSTEM, LIST = "System", "List"
_ZONE = "topology.kubernetes.io/zone"
SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(topology_key=HOSTNAME, when_unsatisfiable=SOFT, max_skew=3),
    TopologySpreadConstraint(topology_key=_ZONE, when_unsatisfiable=SOFT, max_skew=5),
)
"""Constraints that kube-scheduler applies if neither the pod nor the configuration has any (KEP-1258)."""


@dataclass(frozen=True, slots=True)
class PodTopologySpreadArgs:
    """kubescheduler.config.k8s.io/v1 PodTopologySpreadArgs.

    `default_constraints` apply to pods without constraints of their own and count the pods that the same Services and
    owner select. With `defaulting_type` System, `SYSTEM_DEFAULTS` apply; with List, the given constraints.
    """

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = SYSTEM

    def __post_init__(self) -> None:
        object.__setattr__(self, "defaulting_type", self.defaulting_type or SYSTEM)
        problems = []
        if self.defaulting_type not in (SYSTEM, LIST):
            problems.append(unsupported("defaultingType", self.defaulting_type, (SYSTEM, LIST)))
        elif self.defaulting_type == SYSTEM and self.default_constraints:
            problems.append(invalid("defaultingType", SYSTEM, "when .defaultConstraints are not empty"))
        for i, constraint in enumerate(self.default_constraints):
            problems += _constraint_problems(f"defaultConstraints[{i}]", constraint, self.default_constraints[:i])
        raise_for_problems(problems)


_PRE_FILTER_STATE: StateKey[tuple[Skew, ...]] = StateKey("PodTopologySpread filter")
_PRE_SCORE_STATE: StateKey[SpreadScore] = StateKey("PodTopologySpread score")


class PodTopologySpread(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """Reject nodes in domains that would exceed maxSkew; prefer the domains with the fewest matching pods."""

    name = "PodTopologySpread"
    checks_resizes = False
    Args = PodTopologySpreadArgs
    reads = Reads.DOMAINS
    reads_annotations = False
    reads_claims = False
    node_fields = NodeFields.LABELS | NodeFields.SPEC
    pre_reads_nodes = False
    skips_read_pods = False
    pre_score_is_live = True
    normalizer = SpreadNormalizer()
    watches = KINDS

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._system_defaulted = args.defaulting_type == SYSTEM
        defaults = SYSTEM_DEFAULTS if self._system_defaulted else args.default_constraints
        selectors = DefaultSelectors(handle)
        self._hard = ConstraintCache(HARD, defaults, selectors)
        self._soft = ConstraintCache(SOFT, defaults, selectors)
        self._filter_domains = EligibleDomainsCache[None]()
        self._scores = SpreadScores()

    # -- events --------------------------------------------------------------------------------------------------

    def sign_group(self, group: PodSignatureGroup) -> Hashable:
        spec, owner = group.spec, group.owner
        affinity = spec.affinity
        node_policies = (spec.node_selector, affinity and affinity.node_affinity, spec.tolerations)
        return packed(group.namespace, owner, spec.topology_spread_constraints, node_policies)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        pods = Action.ADD | Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION | Action.DELETE
        nodes = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        events_to_register = [
            ClusterEventWithHint(POD, pods | Action.UPDATE_POD_TERMINATING, self._pod_changed),
            ClusterEventWithHint(NODE, nodes, self._topology_changed),
        ]
        if self._hard.has_defaults:
            every = Action.ADD | Action.UPDATE | Action.DELETE
            events_to_register += [
                ClusterEventWithHint(kind.kind, every, self._default_selector_changed) for kind in KINDS
            ]
            events_to_register.append(ClusterEventWithHint(TARGET_POD, Action.UPDATE, self._owner_changed))
        return events_to_register

    def _pod_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        old: Pod | None = event.old
        new: Pod | None = event.new
        if any(other is not None and not _may_count(other, pod) for other in (old, new)):
            return QueueingHint.SKIP
        try:
            spreads = self._hard.of(pod.signature)
        except SelectorError:
            return QueueingHint.QUEUE
        if old is not None and new is not None and new.uid == pod.uid:
            relabelled = old.labels != new.labels
            tolerates_more = new.signature.tolerations != old.signature.tolerations
            return queue_if(relabelled or (tolerates_more and any(s.honors_taints for s in spreads)))
        return queue_if(any(_counts(s, old) != _counts(s, new) for s in spreads))

    def _topology_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        try:
            spreads = self._hard.of(pod.signature)
        except SelectorError:
            return QueueingHint.QUEUE
        before, now = (_domains(spreads, pod, node) for node in (event.old, event.new))
        return queue_if(before != now)

    def _default_selector_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """Return QUEUE if the changed Service or controller may select the pod for default constraints."""
        namespace = (event.new or event.old).get("metadata", {}).get("namespace")
        return queue_if(namespace == pod.namespace and self._hard.follow_labels(pod.signature))

    def _owner_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        changed = event.old.signature.owner != event.new.signature.owner
        return queue_if(event.new.uid == pod.uid and changed and self._hard.follow_labels(pod.signature))

    # -- filter --------------------------------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        try:
            spreads = self._hard.of(pod.signature)
        except SelectorError as error:
            text = "get constraints from pod: obtaining pod's hard topology spread constraints:"
            raise StatusError(f"{text} {error}") from error
        if not spreads:
            return _skip(self._hard, pod)
        nodes = nodes.all_nodes
        _charge(cycle, pod.signature, spreads, nodes)
        eligible, _ = self._filter_domains.of(spreads, pod.signature, nodes, require_all=True)
        found = zip(spreads, eligible, strict=True)
        cycle[_PRE_FILTER_STATE] = tuple([Skew.of(spread, domains, nodes) for spread, domains in found])
        return None

    def add_pod(self, cycle: Cycle, pod: Pod, added: Pod, node: NodeInfo) -> None:
        self._update_with_pod(cycle, pod, added, node, 1)

    def remove_pod(self, cycle: Cycle, pod: Pod, removed: Pod, node: NodeInfo) -> None:
        self._update_with_pod(cycle, pod, removed, node, -1)

    def _update_with_pod(self, cycle: Cycle, pod: Pod, other: Pod, node: NodeInfo, pods: int) -> None:
        """Update the counts for an added or removed pod.

        Unlike in the counts of the cluster, terminating pods count, and a selector without requirements counts all
        pods; kube-scheduler does the same.
        """
        skews = cycle[_PRE_FILTER_STATE]
        if other.namespace != pod.namespace or not _has_all(tuple(s.spread for s in skews), node.labels):
            return
        cycle[_PRE_FILTER_STATE] = tuple(
            skew.with_pods(node.labels[skew.spread.key], pods)
            if skew.spread.selects(other.labels) and node_matches_policies(skew.spread, pod.signature, node)
            else skew
            for skew in skews
        )

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        for skew in cycle[_PRE_FILTER_STATE]:
            rejection = skew.rejection(node.labels)
            if rejection is not None:
                return rejection
        return None

    def filter_cache_key(self, cycle: Cycle) -> Hashable:
        return tuple([skew.cache_key for skew in cycle[_PRE_FILTER_STATE]])

    def filter_equivalence(self, cycle: Cycle) -> NodeEquivalence:
        return skew_equivalence(cycle[_PRE_FILTER_STATE])

    def filter_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeToStatus:
        statuses = NodeToStatus(len(nodes))
        for skew in cycle[_PRE_FILTER_STATE]:
            skew.reject(nodes, statuses)
        return statuses

    # -- score ---------------------------------------------------------------------------------------------------

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        try:
            spreads = self._soft.of(pod.signature)
        except SelectorError as error:
            text = "calculating preScoreState: obtaining pod's soft topology spread constraints:"
            raise StatusError(f"{text} {error}") from error
        if not spreads:
            return _skip(self._soft, pod)
        _charge(cycle, pod.signature, spreads, nodes)
        # The system's defaults still spread nodes without a zone by host name.
        require_all = bool(pod.spec.topology_spread_constraints) or not self._system_defaulted
        cycle[_PRE_SCORE_STATE] = self._scores.of(spreads, pod.signature, nodes, require_all)
        return None

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return cycle[_PRE_SCORE_STATE].on(node)

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        return cycle[_PRE_SCORE_STATE].on_all(nodes)

    def score_cache_key(self, cycle: Cycle) -> Hashable | None:
        return cycle[_PRE_SCORE_STATE].cache_key

    def score_equivalence(self, cycle: Cycle) -> NodeEquivalence | None:
        return cycle[_PRE_SCORE_STATE].weighted.equivalence


def _skip(constraints: ConstraintCache, pod: Pod) -> Skip:
    """Return the Skip of a pod without constraints, with the scope in which it can be cached."""
    return SKIP_SIGNATURE if constraints.follow_labels(pod.signature) else SKIP_SIGNATURE_GROUP


def _charge(cycle: Cycle, signature: PodSignature, spreads: SpreadConstraints, nodes: NodeTable) -> None:
    """Charge the attempt for evaluating the constraints. AttemptLimitExceeded beyond the limit."""
    cycle.charge_evaluations(len(spreads), len(nodes), "topology spread")
    if signature.size <= SMALL:
        return
    for spread in spreads:
        if spread.count is not None and spread.counts_large:
            cycle.charge_evaluations(
                len(spread.count.selector.requirements), len(nodes), "a spread selector", POD_BLOCK
            )


def _may_count(other: Pod, pod: Pod) -> bool:
    """Return True if the constraints of `pod` may count the other pod: bound, nominated, or the pod itself."""
    if other.uid == pod.uid:
        return True
    return bool(other.node_name or other.nominated_node_name) and other.namespace == pod.namespace


def _has_all(spreads: SpreadConstraints, labels: Mapping[str, str]) -> bool:
    return all(spread.key in labels for spread in spreads)


def _counts(spread: SpreadConstraint, pod: Pod | None) -> bool:
    """Return True if the constraint counts the pod; terminating pods do not count."""
    return pod is not None and not pod.deleting and spread.selects(pod.labels)


def _domains(spreads: SpreadConstraints, pod: Pod, node: NodeObject | None) -> Sequence[tuple[str, bool]]:
    """Return (domain, inclusion policies match) of the node per constraint; () if it lacks a topology key."""
    labels = (node.metadata.labels if node else None) or {}
    if node is None or not _has_all(spreads, labels):
        return ()
    name, taints = node.metadata.name, node.spec.taints or ()
    return [(labels[s.key], matches_policies(s, pod.signature, name, labels, taints)) for s in spreads]


def _constraint_problems(
    path: str, constraint: TopologySpreadConstraint, before: Sequence[TopologySpreadConstraint]
) -> list[str]:
    key, action = constraint.topology_key, constraint.when_unsatisfiable
    problems = []
    if constraint.max_skew <= 0:
        problems.append(invalid(f"{path}.maxSkew", constraint.max_skew, "not in valid range (0, inf)"))
    if not key:
        problems.append(required(f"{path}.topologyKey", "can not be empty"))
    problems += [invalid(f"{path}.topologyKey", key, rule) for rule in (key_rules(key) if key else ())]
    if not action:
        problems.append(required(f"{path}.whenUnsatisfiable", "can not be empty"))
    elif action not in (HARD, SOFT):
        problems.append(unsupported(f"{path}.whenUnsatisfiable", action, (HARD, SOFT)))
    if constraint.label_selector is not None:
        text = "constraint must not define a selector, as they deduced for each pod"
        problems.append(forbidden(f"{path}.labelSelector", text))
    if any((c.topology_key, c.when_unsatisfiable) == (key, action) for c in before):
        problems.append(duplicate(path, f"{{{key}, {action}}}"))
    return problems
