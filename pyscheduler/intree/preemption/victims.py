"""Which pods would have to leave a node, and how bad that is: the parts of preemption that look at one node's pods."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from pyscheduler.api import Candidate, DryRun, NodeInfo, Pod, Status
from pyscheduler.intree.preemption.budgets import Budgets
from pyscheduler.intree.preemption.go_sort import go_sort

Loss = tuple[int, int, int, int, float]
_OFFSET = 1 << 31
"""Makes all priorities positive, so that a sum of them never gets better by one more victim."""


class ReprieveCandidates(NamedTuple):
    """The pods of a lower priority on a node, in the order in which they may come back once all have left.

    Those that a budget guards go first, then the most important (kube-scheduler's SelectVictimsOnNode).
    """

    violating: Sequence[Pod]
    others: Sequence[Pod]

    @property
    def order(self) -> list[Pod]:
        """All of them."""
        return [*self.violating, *self.others]


def reprieve_candidates(pod: Pod, node: NodeInfo, budgets: Budgets) -> ReprieveCandidates:
    """The pods of the node that could make room for `pod`."""
    return ReprieveCandidates(*budgets.split(by_importance(p for p in node.pods.values() if p.priority < pod.priority)))


def dry_run(trial: DryRun, pods: ReprieveCandidates, node: NodeInfo) -> Candidate | Status:
    """The fewest and least important of the pods without which there is room, or why there is none without them all.

    A pod without which there is no room is a victim. The candidate has no victims if all could stay after all.
    """
    lower = set(pods.order)
    for victim in [p for p in node.pods.values() if p in lower]:
        trial.remove(victim)
    refusal = trial.run_filters()
    return refusal if refusal is not None else candidate(pods, [_reprieve(trial, p) for p in pods.order])


def candidate(pods: ReprieveCandidates, stay: Sequence[bool]) -> Candidate:
    """The node without those of the pods, in their order, that may not stay."""
    violating = len(pods.violating)
    violations = [p for p, stays in zip(pods.violating, stay[:violating], strict=True) if not stays]
    victims = violations + [p for p, stays in zip(pods.others, stay[violating:], strict=True) if not stays]
    if pods.violating and pods.others:
        victims = by_importance(victims)
    return Candidate(tuple(victims), len(violations))


def _reprieve(trial: DryRun, victim: Pod) -> bool:
    trial.add(victim)
    if trial.run_filters() is None:
        return True
    trial.remove(victim)
    return False


def by_importance(pods: Iterable[Pod]) -> list[Pod]:
    """The highest priority first; of equals the pod that started first.

    A pod that has not started counts as starting now, and "now" is later each time it is asked for: of two such pods
    kube-scheduler takes the one that it looks at first for the more important, and sorts accordingly.
    """
    ranked = [(-p.priority, started(p), p) for p in pods]
    if len({rank[:2] for rank in ranked}) == len(ranked):
        ranked.sort(key=lambda rank: rank[:2])
    else:
        go_sort(ranked, lambda a, b: a[:2] < b[:2] or (a[0] == b[0] and a[1] == b[1] == math.inf))
    return [pod for *_, pod in ranked]


def started(pod: Pod) -> float:
    """status.startTime in seconds, infinity for a pod that has not started or whose time cannot be read."""
    return math.inf if pod.start_time is None else _seconds(pod.start_time)


@lru_cache(maxsize=1 << 14)
def _seconds(timestamp: str) -> float:
    try:
        time = datetime.fromisoformat(timestamp)
    except ValueError:
        return math.inf
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def is_being_preempted(pod: Pod) -> bool:
    """Whether the pod is on its way out because a scheduler has evicted it."""
    target = next((c for c in pod.conditions if c.type == "DisruptionTarget"), None)
    marked = target is not None and target.status == "True" and target.reason == "PreemptionByScheduler"
    return pod.deleting and marked


def best(candidates: Mapping[str, Candidate]) -> tuple[str, ...]:
    """The nodes that are equally good to preempt on, in the order given (kube-scheduler's pickOneNodeForPreemption)."""
    if len(candidates) == 1:
        return tuple(candidates)
    return least({name: loss(candidate) for name, candidate in candidates.items()})


def least(losses: Mapping[str, Loss]) -> tuple[str, ...]:
    """The nodes with the least loss, in the order given."""
    lowest = min(losses.values())
    return tuple(name for name, loss in losses.items() if loss == lowest)


def loss(candidate: Candidate) -> Loss:
    """Cost of evicting the victims, as a tuple that compares; there is at least one victim."""
    return (candidate.pdb_violations, *_loss(candidate.victims))


@lru_cache(maxsize=1 << 10)
def _loss(victims: tuple[Pod, ...]) -> tuple[int, int, int, float]:
    """What is lost with them, what matters most first: the less, the better.

    The highest priority, the sum of all, how many there are, and since when the most important of them have run: the
    later, the less is lost. Preemptors come by the hundred and weigh the same nodes.
    """
    highest = max(p.priority for p in victims)
    earliest = min(started(p) for p in victims if p.priority == highest)
    return victims[0].priority, sum(p.priority + _OFFSET for p in victims), len(victims), -earliest
