"""Preemption for `evaluate` and `explain`: all candidates and the chosen one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import msgspec

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.outcome import Code
from pyscheduler.api.plugin import PostFilterPlugin
from pyscheduler.api.pod import Pod


class Candidate(msgspec.Struct, frozen=True):
    """Node that fits the pod after the eviction of the victims (kube-scheduler's preemption Candidate)."""

    victims: tuple[Pod, ...]
    """Pods to evict, the most important one first."""
    pdb_violations: int = 0
    """Number of victims with evictions that violate a PodDisruptionBudget."""


def found_placement(node_name: str, victims: int) -> str:
    """Return kube-scheduler's message for a preemption that nominates a node, with the number of victims."""
    return f"preemption: found a potential placement for pod on node {node_name}, preempting {victims} victims"


class PreemptionSearch(msgspec.Struct, frozen=True):
    """Result of a search for preemption candidates."""

    status: Code
    """SUCCESS if a node is to be nominated; otherwise the code of the failure."""
    message: str = ""
    """Part of the FailedScheduling message."""
    nominated_node: str | None = None
    """New nominated node; "" clears the nomination, None leaves it unchanged."""
    candidates: Mapping[str, Candidate] = msgspec.field(default_factory=dict)
    """Candidates by node name."""
    ties: tuple[str, ...] = ()
    """Names of the equally good candidates; the nominated node is one of them."""

    @property
    def victims(self) -> tuple[Pod, ...]:
        """Pods to evict from the nominated node; empty without one."""
        return self.candidates[self.nominated_node].victims if self.nominated_node else ()


class PreemptionPlugin(PostFilterPlugin):
    """Preemption of lower-priority pods. Attempts and victims are counted in kube-scheduler's metrics."""

    @abstractmethod
    def search(self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis) -> PreemptionSearch:
        """Return the candidates among all nodes, not only those that `post_filter` samples. Evicts nothing."""

    def violates_budgets(self, pods: Sequence[Pod]) -> Sequence[Pod]:  # noqa: ARG002
        """Return the pods that violate a PodDisruptionBudget if all of these are evicted in this order.

        By default, none. Called for the victims of a pod group.
        """
        return ()

    def choose(self, candidates: Mapping[str, Candidate]) -> str:
        """Return the name of the node to nominate, of the candidates that extenders have left (at least one).

        By default, the first one.
        """
        return next(iter(candidates))
