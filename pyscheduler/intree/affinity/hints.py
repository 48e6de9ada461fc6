"""What may help a pod that InterPodAffinity rejected.

Matches kube-scheduler's hints to the letter, also where they know less than its Filter: labels of namespaces are not
looked at, and several anti-affinity terms are looked at together. What they miss is found by the periodic retry.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyscheduler.api import Action, ClusterEvent, Hint, NodeObject, Pod
from pyscheduler.intree._hints import had_place, queue_if
from pyscheduler.intree.affinity.terms import NO_LABELS, AffinityTerms, Labels, Term, affinity_terms


def pod_changed(pod: Pod, event: ClusterEvent) -> Hint:
    """Whether a pod that came, left or was relabelled may help `pod`."""
    old, new = event.old, event.new
    if old is not None and new is not None and new.uid == pod.uid:
        return Hint.QUEUE
    if (new is not None and not _has_place(new)) or (old is not None and not _held_place(event)):
        return Hint.SKIP
    own = affinity_terms(pod.shape)
    if own.problem:
        return Hint.QUEUE
    if new is None:
        return queue_if(_keeps_apart(own, pod, old))
    if old is None:
        return queue_if(all_match(own.affinity, new))
    attracts_now = not all_match(own.affinity, old) and all_match(own.affinity, new)
    repels_no_longer = all_match(own.anti_affinity, old) and not all_match(own.anti_affinity, new)
    return queue_if(attracts_now or repels_no_longer)


def node_changed(pod: Pod, event: ClusterEvent) -> Hint:
    """Whether a node that came or was relabelled may help `pod`."""
    own = affinity_terms(pod.shape)
    if own.problem:
        return Hint.QUEUE
    now = _labels(event.new)
    if event.action & Action.ADD:
        return queue_if(bool(own.anti_affinity) or any(term.key in now for term in own.affinity))
    before = _labels(event.old)
    joined = any(term.key in now and before.get(term.key) != now[term.key] for term in own.affinity)
    left = any(term.key in before and before[term.key] != now.get(term.key) for term in own.anti_affinity)
    return queue_if(joined or left)


def all_match(terms: Sequence[Term], pod: Pod) -> bool:
    """Whether every one of some terms, at least one, speaks of the pod."""
    return bool(terms) and all(term.peers.include(pod.shape) for term in terms)


def _keeps_apart(own: AffinityTerms, pod: Pod, gone: Pod) -> bool:
    """Whether the two could not be together for the anti-affinity of either."""
    theirs = affinity_terms(gone.shape)
    return all_match(own.anti_affinity, gone) or bool(theirs.problem) or all_match(theirs.anti_affinity, pod)


def _has_place(pod: Pod) -> bool:
    return bool(pod.node_name or pod.nominated_node_name)


def _held_place(event: ClusterEvent) -> bool:
    return had_place(event) if event.new is None else _has_place(event.old)


def _labels(node: NodeObject) -> Labels:
    return node.metadata.labels or NO_LABELS
