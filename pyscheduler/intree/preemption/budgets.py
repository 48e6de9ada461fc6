"""PodDisruptionBudgets as preemption reads them: which victims would be one too many.

Preemption prefers victims that no budget protects, but a budget does not stop it (policy/v1, kube-scheduler's
filterPodsWithPDBViolation).
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
    """How many more of the pods that it selects may go; those in `processed` have been counted already."""

    selector: Selector
    allowed: int
    processed: frozenset[str]

    def covers(self, pod: Pod) -> bool:
        return pod.name not in self.processed and self.selector.matches(pod.labels)


class Budgets:
    """The budgets of a cluster, compiled namespace by namespace as they are needed."""

    def __init__(self, objects: Mapping[tuple[str, str], dict[str, Any]]) -> None:
        self._objects: dict[str, list[dict[str, Any]]] = {}
        for (namespace, _), source in objects.items():
            self._objects.setdefault(namespace, []).append(source)
        self._compiled: dict[str, tuple[_Budget, ...]] = {}

    def split(self, pods: Iterable[Pod]) -> tuple[list[Pod], list[Pod]]:
        """The pods whose eviction would break a budget, and the others; evicted in this order, all of them."""
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
    """Of a policy/v1 PodDisruptionBudget what matters here."""

    spec: _BudgetSpec | None = None
    status: _BudgetStatus | None = None


def _compile(source: Mapping[str, Any]) -> _Budget | None:
    """None for a budget that covers nothing: its selector is missing or empty, or it cannot be read."""
    try:
        budget = msgspec.convert(source, _BudgetObject)
        selector = read_selector(budget.spec.selector) if budget.spec else None
    except (SelectorError, msgspec.ValidationError):
        return None
    if selector is None or not selector.requirements:
        return None
    status = budget.status or _BudgetStatus()
    return _Budget(selector, status.disruptions_allowed or 0, frozenset(status.disrupted_pods or ()))
