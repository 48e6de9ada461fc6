"""NodeAffinity: select nodes by label and name, with nodeSelector and node affinity."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from pyscheduler.api import (
    NODE,
    SKIP_SIGNATURE_GROUP,
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    Cycle,
    DefaultNormalizeScore,
    FilterPlugin,
    Handle,
    NodeFields,
    NodeInfo,
    NodeNames,
    NodeObject,
    NodeTable,
    NodeTerm,
    NodeToStatus,
    Pod,
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
    StatusError,
    packed,
)
from pyscheduler.api.match import NODE_NAME_FIELD, node_term, node_terms
from pyscheduler.api.objects import NodeAffinity as NodeAffinityObject
from pyscheduler.api.objects import NodeSelectorTerm, PreferredSchedulingTerm
from pyscheduler.intree._hints import queue_if
from pyscheduler.intree._label_selectors import aggregate, term_problems
from pyscheduler.intree._preferred import FewPreferences, Preferences, many_preferences, stated_preferences
from pyscheduler.intree._problems import raise_for_problems
from pyscheduler.intree._required import (
    allowed,
    allows,
    any_matches,
    any_term,
    charge_required,
    has_no_required_terms,
)
from pyscheduler.intree._term_matcher import NODE_BLOCK

POD_MISMATCH = Rejection("node(s) didn't match Pod's node affinity/selector", resolvable=False)
ENFORCED_MISMATCH = Rejection("node(s) didn't match scheduler-enforced node affinity", resolvable=False)
CONFLICT = Rejection("pod affinity terms conflict", resolvable=False)

_NOTHING = NodeTerm((), ())
_EMPTY = NodeSelectorTerm()
_REQUIRED = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution"
_PREFERENCES = "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class NodeAffinityArgs:
    """kubescheduler.config.k8s.io/v1 NodeAffinityArgs: `added_affinity` applies to every pod, besides its own."""

    added_affinity: NodeAffinityObject | None = None

    def __post_init__(self) -> None:
        added = self.added_affinity or NodeAffinityObject()
        required = added.required_during_scheduling_ignored_during_execution
        preferred = added.preferred_during_scheduling_ignored_during_execution
        problems: list[str] = []
        for i, term in enumerate((required.node_selector_terms if required else None) or ()):
            problems += term_problems(f"{_REQUIRED}.nodeSelectorTerms[{i}]", term)
        for i, wanted in enumerate(preferred or ()):
            # Kube-scheduler does not parse preferences without a weight.
            path = f"{_PREFERENCES}[{i}].preference"
            problems += term_problems(path, wanted.preference) if wanted.weight else []
        raise_for_problems(problems)


_PREFERRED: StateKey[Sequence[Preferences]] = StateKey("NodeAffinity")


class NodeAffinity(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """Reject nodes that the pod's nodeSelector or required affinity excludes; score by its preferred affinity."""

    name = "NodeAffinity"
    checks_resizes = False
    Args = NodeAffinityArgs
    reads = Reads.OWN_NODE
    reads_labels = False
    reads_claims = False
    node_fields = NodeFields.LABELS
    pre_reads_nodes = False
    normalizer = DefaultNormalizeScore()

    def __init__(self, args: NodeAffinityArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        added = args.added_affinity or NodeAffinityObject()
        required = added.required_during_scheduling_ignored_during_execution
        self._added_terms = node_terms(required) if required is not None else None
        self._added_preferred = _compiled(added.preferred_during_scheduling_ignored_during_execution or ())

    def sign_group(self, group: PodSignatureGroup) -> Hashable:
        affinity = group.spec.affinity
        return packed(group.spec.node_selector, affinity and affinity.node_affinity)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (ClusterEventWithHint(NODE, Action.ADD | Action.UPDATE_NODE_LABEL, self._matches_now),)

    def _matches_now(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        if not self._is_allowed(event.new) or not _pod_matches(pod, event.new):
            return QueueingHint.SKIP
        # The added affinity may have rejected the pod: the event helps unless the old node passed both checks.
        was_good = event.old is not None and self._is_allowed(event.old) and _pod_matches(pod, event.old)
        return queue_if(not was_good)

    def _is_allowed(self, node: NodeObject) -> bool:
        terms = self._added_terms
        return terms is None or any_matches(terms, node.metadata.name, node.metadata.labels or {})

    # -- filter --------------------------------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeNames | Rejection | Skip | None:
        if self._added_terms is None and has_no_required_terms(pod.signature):
            return SKIP_SIGNATURE_GROUP
        charge_required(cycle, pod.signature, nodes)
        names = _named_nodes(pod)
        if names is None:
            return None
        return NodeNames(names) if names else CONFLICT

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        labels = node.labels
        if self._added_terms is not None and not any_matches(self._added_terms, node.name, labels):
            return ENFORCED_MISMATCH
        return None if allows(pod.signature, node.name, labels) else POD_MISMATCH

    def filter_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeToStatus:
        statuses = NodeToStatus(len(nodes))
        if self._added_terms is not None:
            statuses.reject(~any_term(self._added_terms, nodes), ENFORCED_MISMATCH)
        statuses.reject(~allowed(pod.signature, nodes), POD_MISMATCH)
        return statuses

    # -- score ---------------------------------------------------------------------------------------------------

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        many = many_preferences(pod.signature)
        preferred = () if many is not None else pod.signature.preferred_node_terms
        if many is None and not preferred and not self._added_preferred:
            return SKIP_SIGNATURE_GROUP
        if many.is_broken if many is not None else any(term == _NOTHING for _, term in preferred):
            _raise_for_invalid_preferences(pod)
        wanted: list[Preferences] = []
        if many is not None:
            cycle.charge_evaluations(many.matcher.requirements, len(nodes), "preferred node affinity", NODE_BLOCK)
            wanted.append(many)
        if preferred or self._added_preferred:
            wanted.append(FewPreferences(self._added_preferred + preferred))
        cycle[_PREFERRED] = wanted
        return None

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return sum(preferences.score(node) for preferences in cycle[_PREFERRED])

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        first, *others = [preferences.scores(nodes) for preferences in cycle[_PREFERRED]]
        for scores in others:
            first += scores
        return first


def _compiled(preferred: Sequence[PreferredSchedulingTerm]) -> tuple[tuple[int, NodeTerm], ...]:
    return tuple((p.weight, node_term(p.preference)) for p in preferred)


def _raise_for_invalid_preferences(pod: Pod) -> None:
    """Raise StatusError for a preference that the API server accepts and kube-scheduler cannot parse."""
    problems = [
        problem
        for i, wanted in enumerate(stated_preferences(pod.signature))
        if wanted.weight and wanted.preference != _EMPTY  # a pod may have a hundred thousand empty ones
        for problem in term_problems(f"[{i}]", wanted.preference)
    ]
    if problems:
        raise StatusError(aggregate(problems))


def _pod_matches(pod: Pod, node: NodeObject) -> bool:
    return allows(pod.signature, node.metadata.name, node.metadata.labels or {})


def _named_nodes(pod: Pod) -> frozenset[str] | None:
    """Return the only nodes that can match, if every required term has node names; None if a term has none."""
    affinity = pod.signature.affinity.node_affinity
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    terms = (required.node_selector_terms if required else None) or ()
    known: set[str] = set()
    for term in terms:
        names = _names_in(term)
        if names is None:
            return None
        known |= names
    return frozenset(known) if terms else None


def _names_in(term: NodeSelectorTerm) -> frozenset[str] | None:
    if not term.match_fields:
        return None
    listed = [f.values or () for f in term.match_fields if f.key == NODE_NAME_FIELD and f.operator == "In"]
    return frozenset(listed[0]).intersection(*listed[1:]) if listed else None
