"""PodDisruptionBudgets in preemption: which evictions would violate one.

Preemption prefers victims that violate no budget, but a budget does not prevent an eviction (policy/v1,
kube-scheduler's filterPodsWithPDBViolation).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from pyscheduler.api import Pod, ResourceKind, Selector
from pyscheduler.api.match import SelectorError
from pyscheduler.api.objects import LabelSelector
from pyscheduler.intree._label_selectors import read_selector

PDB = ResourceKind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")


@dataclass(frozen=True, slots=True, eq=False)
class _Budget:
    """Selector and allowed disruptions of a budget; `processed` pods (status.disruptedPods) are counted already."""

    selector: Selector
    allowed: int
    processed: frozenset[str]

    def covers(self, pod: Pod) -> bool:
        return pod.name not in self.processed and self.selector.matches(pod.labels)


class Budgets:
    """PodDisruptionBudgets of a cluster, compiled per namespace on first use."""

    def __init__(self, objects: Mapping[tuple[str, str], dict[str, Any]]) -> None:
        self._objects: dict[str, list[dict[str, Any]]] = {}
        for (namespace, _), source in objects.items():
            self._objects.setdefault(namespace, []).append(source)
        self._compiled: dict[str, tuple[_Budget, ...]] = {}

    def split(self, pods: Iterable[Pod]) -> tuple[list[Pod], list[Pod]]:
        """Split the pods, evicted in this order, into those that violate a budget and the others."""
        left: dict[_Budget, int] = {}
        violating: list[Pod] = []
        others: list[Pod] = []
        for pod in pods:
            broken = False
            for budget in self._of(pod.namespace) if pod.labels else ():
                if budget.covers(pod):
                    left[budget] = left.get(budget, budget.allowed) - 1
                    broken = broken or left[budget] < 0
            (violating if broken else others).append(pod)
        return violating, others

    def _of(self, namespace: str) -> Sequence[_Budget]:
        if not self._objects:
            return ()
        compiled = self._compiled.get(namespace)
        if compiled is None:
            sources = self._objects.get(namespace, ())
            compiled = tuple(budget for source in sources if (budget := _compile(source)) is not None)
            self._compiled[namespace] = compiled
        return compiled


class _BudgetSpec(msgspec.Struct):
    selector: LabelSelector | None = None


class _BudgetStatus(msgspec.Struct, rename="camel"):
    disruptions_allowed: int | None = None
    disrupted_pods: dict[str, Any] | None = None


class _BudgetObject(msgspec.Struct):
    """Fields of a policy/v1 PodDisruptionBudget that preemption reads."""

    spec: _BudgetSpec | None = None
    status: _BudgetStatus | None = None


def _compile(source: Mapping[str, Any]) -> _Budget | None:
    """Compile a budget; None if it covers no pod because its selector is missing, empty or invalid."""
    try:
        budget = msgspec.convert(source, _BudgetObject)
        selector = read_selector(budget.spec.selector) if budget.spec else None
    except (SelectorError, msgspec.ValidationError):
        return None
    if selector is None or not selector.requirements:
        return None
    status = budget.status or _BudgetStatus()
    return _Budget(selector, status.disruptions_allowed or 0, frozenset(status.disrupted_pods or ()))
