"""Queueing hints of InterPodAffinity.

Kube-scheduler's hints miss events: they ignore namespace labels, treat the terms of an anti-affinity as one, and do
not requeue a pod that satisfies its own affinity when the last other match is gone. These hints requeue the pod on
every event that can make a node feasible.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

from pyscheduler.api import Action, ClusterEvent, Handle, NodeObject, NodeTable, Pod, PodSignature, QueueingHint
from pyscheduler.intree._hints import occupied_node, queue_if
from pyscheduler.intree.affinity.counts import ExistingAntiAffinityTerms, PodsMatchingAllTerms
from pyscheduler.intree.affinity.domain_counts import count_by_topology
from pyscheduler.intree.affinity.namespaces import NamespaceLister, labels_of
from pyscheduler.intree.affinity.terms import NO_LABELS, NO_TERMS, Labels, Term, affinity_terms


class AffinityHints:
    """Queueing hints of InterPodAffinity. They read the cluster state after the event."""

    def __init__(self, handle: Handle, namespaces: NamespaceLister) -> None:
        self._handle = handle
        self._namespaces = namespaces

    # -- pods ----------------------------------------------------------------------------------------------------

    def pod_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """Return QUEUE if a pod that was bound, deleted or relabelled may make `pod` schedulable."""
        old, new = event.old, event.new
        if old is not None and new is not None and new.uid == pod.uid:
            return QueueingHint.QUEUE
        if (new is not None and not _has_node(new)) or (old is not None and not _had_node(event)):
            return QueueingHint.SKIP
        own = affinity_terms(pod.signature)
        if own.problem:
            return QueueingHint.QUEUE
        before, now = (None if side is None else side.signature for side in (old, new))
        return queue_if(
            self._satisfies_affinity(pod, before, now)
            or self._ends_anti_affinity(pod, before, now)
            or self._ends_existing_anti_affinity(pod, before, now)
        )

    def _satisfies_affinity(self, pod: Pod, before: PodSignature | None, now: PodSignature | None) -> bool:
        """Return True if the other pod newly satisfies the affinity, or was the last one to satisfy it."""
        affinity = self._resolved(affinity_terms(pod.signature).affinity)
        if not affinity:
            return False
        matched, matches = (side is not None and all_match(affinity, side) for side in (before, now))
        if matches:
            return not matched
        return matched and self._is_first_of_group(pod, affinity)

    def _ends_anti_affinity(self, pod: Pod, before: PodSignature | None, now: PodSignature | None) -> bool:
        """Return True if a term of the pod's anti-affinity matched the other pod and no longer does."""
        if before is None:
            return False
        anti_affinity = self._resolved(affinity_terms(pod.signature).anti_affinity)
        return any(t.peers.include(before) and (now is None or not t.peers.include(now)) for t in anti_affinity)

    def _ends_existing_anti_affinity(self, pod: Pod, before: PodSignature | None, now: PodSignature | None) -> bool:
        """Return True if a term of the other pod's anti-affinity matched the pod and is gone."""
        if before is None:
            return False
        others = affinity_terms(before)
        if others is NO_TERMS:
            return False
        left = () if now is None else affinity_terms(now).anti_affinity
        return bool(others.problem) or any(self._matches(t, pod) for t in others.anti_affinity if t not in left)

    # -- nodes ---------------------------------------------------------------------------------------------------

    def node_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """Return QUEUE if a node that was added, relabelled or deleted may make `pod` schedulable."""
        own = affinity_terms(pod.signature)
        if own.problem:
            return QueueingHint.QUEUE
        before, now = _labels(event.old), _labels(event.new)
        joined = {key for key, value in now.items() if before.get(key) != value}
        left = {key for key, value in before.items() if now.get(key) != value}
        affinity = {term.key for term in own.affinity}
        if event.new is None:  # the terms of the pods that ran on it are no longer available
            return queue_if(bool(left))
        if event.action & Action.ADD and (not affinity or not affinity.isdisjoint(joined)):
            return QueueingHint.QUEUE
        return queue_if(
            not affinity.isdisjoint(joined)
            or any(term.key in left for term in own.anti_affinity)
            or self._existing_anti_affinity_matches(left, pod)
            or (not affinity.isdisjoint(left) and self._is_first_of_group(pod, self._resolved(own.affinity)))
        )

    def _existing_anti_affinity_matches(self, keys: Collection[str], pod: Pod) -> bool:
        """Return True if the anti-affinity of a placed pod matches the pod by one of the topology keys."""
        return bool(keys) and any(
            not isinstance(term, Term) or (term.key in keys and self._matches(term, pod))
            for term in self._existing_anti_affinity_terms()
        )

    # -- namespaces ----------------------------------------------------------------------------------------------

    def namespace_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """Return QUEUE if changed labels of a namespace, the pod's own or another, may make `pod` schedulable."""
        name = (event.new or event.old)["metadata"]["name"]
        before, now = (None if side is None else labels_of(side) for side in (event.old, event.new))
        own = affinity_terms(pod.signature)
        helps = (
            any(_selects_namespace(t, now) and not _selects_namespace(t, before) for t in own.affinity)
            or any(_selects_namespace(t, before) and not _selects_namespace(t, now) for t in own.anti_affinity)
            or (name == pod.namespace and self._ends_match_by_namespace(pod, before or NO_LABELS, now or NO_LABELS))
            or (
                any(_selects_namespace(t, before) and not _selects_namespace(t, now) for t in own.affinity)
                and self._is_first_of_group(pod, self._resolved(own.affinity))
            )
        )
        return queue_if(helps)

    def _ends_match_by_namespace(self, pod: Pod, before: Labels, now: Labels) -> bool:
        """Return True if a placed pod's anti-affinity matched by the namespace's old labels and no longer does."""
        return any(
            not isinstance(term, Term)
            or (term.peers.include(pod.signature, before) and not term.peers.include(pod.signature, now))
            for term in self._existing_anti_affinity_terms()
        )

    # -- the cluster ---------------------------------------------------------------------------------------------

    def _is_first_of_group(self, pod: Pod, affinity: Sequence[Term]) -> bool:
        """Return True if the pod satisfies its own affinity and no placed pod does."""
        if not all_match(affinity, pod.signature):
            return False
        count = PodsMatchingAllTerms(tuple(term.peers for term in affinity))
        return count_by_topology(self._nodes, {term.key: count for term in affinity}).total == 0

    def _existing_anti_affinity_terms(self) -> Collection[Hashable]:
        """Return the required anti-affinity terms of placed pods; `TOO_MANY_TERMS` for a pod with too many."""
        return self._nodes.attribute_counts(ExistingAntiAffinityTerms())

    @property
    def _nodes(self) -> NodeTable:
        return self._handle.nodes.table()

    def _resolved(self, terms: Sequence[Term]) -> Sequence[Term]:
        if not any(term.peers.selects_namespaces for term in terms):
            return terms
        return tuple(self._namespaces.resolved(term) for term in terms)

    def _matches(self, term: Term, pod: Pod) -> bool:
        """Return True if another pod's term matches the pod."""
        return term.peers.include(pod.signature, labels_of(self._namespaces.get(pod.namespace)))


def all_match(terms: Sequence[Term], signature: PodSignature) -> bool:
    """Return True if there are terms and all match pods of the signature."""
    return bool(terms) and all(term.peers.include(signature) for term in terms)


def _selects_namespace(term: Term, namespace: Labels | None) -> bool:
    """Return True if the term's namespaceSelector selects a namespace with these labels; None is no namespace."""
    selector = term.peers.namespace_selector
    return namespace is not None and selector is not None and selector.matches(namespace)


def _has_node(pod: Pod) -> bool:
    return bool(pod.node_name or pod.nominated_node_name)


def _had_node(event: ClusterEvent) -> bool:
    return occupied_node(event) if event.new is None else _has_node(event.old)


def _labels(node: NodeObject | None) -> Labels:
    return NO_LABELS if node is None else node.metadata.labels or NO_LABELS
