"""Victims of preemption on one node: their order, and their selection by a dry run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pyscheduler.api import Candidate, DryRun, NodeInfo, Pod, Status
from pyscheduler.intree.preemption.budgets import Budgets
from pyscheduler.intree.preemption.go_sort import INSERTION, go_sort


class ReprieveCandidates(NamedTuple):
    """Pods of lower priority on a node, in the order in which they are reprieved after all were removed.

    First those with a PDB violation, each part by descending importance (kube-scheduler's SelectVictimsOnNode).
    """

    violating: Sequence[Pod]
    others: Sequence[Pod]

    @property
    def order(self) -> list[Pod]:
        """All pods, in the order of the reprieve."""
        return [*self.violating, *self.others]


def reprieve_candidates(pod: Pod, node: NodeInfo, budgets: Budgets) -> ReprieveCandidates:
    """Return the pods of the node that `pod` may preempt."""
    return ReprieveCandidates(*budgets.split(by_importance(p for p in node.pods.values() if p.priority < pod.priority)))


def dry_run(run: DryRun, pods: ReprieveCandidates, node: NodeInfo) -> Candidate | Status:
    """Remove all lower-priority pods and reprieve as many as possible; the rest are the victims.

    Returns the rejection if the pod does not fit even without them. A candidate has no victims if all were reprieved.
    """
    lower = set(pods.order)
    for victim in [p for p in node.pods.values() if p in lower]:
        run.remove(victim)
    rejection = run.run_filters()
    return rejection if rejection is not None else candidate(pods, [_reprieve(run, p) for p in pods.order])


def candidate(pods: ReprieveCandidates, reprieved: Sequence[bool]) -> Candidate:
    """Return the candidate with the victims: the pods, in their order, with a False in `reprieved`."""
    violating = len(pods.violating)
    violations = [p for p, is_reprieved in zip(pods.violating, reprieved[:violating], strict=True) if not is_reprieved]
    victims = violations + [
        p for p, is_reprieved in zip(pods.others, reprieved[violating:], strict=True) if not is_reprieved
    ]
    if pods.violating and pods.others:
        victims = by_importance(victims)
    return Candidate(tuple(victims), len(violations))


def _reprieve(run: DryRun, victim: Pod) -> bool:
    run.add(victim)
    if run.run_filters() is None:
        return True
    run.remove(victim)
    return False


def by_importance(pods: Iterable[Pod]) -> list[Pod]:
    """Sort by descending priority, then by start time, earliest first.

    A pod that has not started counts as starting now, when kube-scheduler reads it: such pods stay in their order. Of
    pods with the same start time the order is that of its sort, which is by insertion for a few pods.
    """
    ranked = [(-pod.priority, pod.started, i if pod.started == math.inf else 0, pod) for i, pod in enumerate(pods)]
    if len(ranked) <= INSERTION or len({rank[:3] for rank in ranked}) == len(ranked):
        ranked.sort(key=lambda rank: rank[:3])
    else:
        go_sort(ranked, lambda a, b: a[:3] < b[:3])
    return [rank[-1] for rank in ranked]


def is_being_preempted(pod: Pod) -> bool:
    """Return True if the pod is terminating because a scheduler preempted it."""
    target = next((c for c in pod.conditions if c.type == "DisruptionTarget"), None)
    marked = target is not None and target.status == "True" and target.reason == "PreemptionByScheduler"
    return pod.deleting and marked
