"""PodDisruptionBudgets in preemption: which evictions would violate one.

Preemption prefers victims that violate no budget, but a budget does not prevent an eviction (policy/v1,
kube-scheduler's FilterVictimsWithPDBViolation).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import Ints, Mask, Pod, PodKinds, PodSignature, ResourceKind, Selector
from pyscheduler.api.match import SelectorError
from pyscheduler.api.objects import LabelSelector
from pyscheduler.intree._label_selectors import read_selector

PDB = ResourceKind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")


_Key = tuple[str, str]
"""Namespace and name."""
_Label = tuple[str, str] | None
"""Key and value of a label that pods need; None for a budget that covers pods with various labels."""
_MOST_PODS = 1 << 31
"""Upper bound of the number of pods on a node."""
MOST_BUDGETS = 16
"""Budgets that are counted for a pod, those that allow least: tenants may let thousands cover each of thousands."""


@dataclass(frozen=True, slots=True, eq=False)
class _Budget:
    """Selector and allowed disruptions of a budget; `processed` pods (status.disruptedPods) are counted already."""

    selector: Selector
    allowed: int
    processed: frozenset[str]

    def covers(self, pod: Pod) -> bool:
        return pod.name not in self.processed and self.selector.matches(pod.labels)


class _BudgetIndex:
    """Budgets of one namespace by a label of the pods that they cover, the strictest first.

    After each change of a budget every kind of pods is matched again, and thousands of budgets may cover as many kinds.
    """

    def __init__(self, budgets: Sequence[_Budget]) -> None:
        self._by_label: dict[_Label, list[tuple[int, int, _Budget]]] = {}
        """Budgets by the labels of which pods need one, each with what it allows and its place among the names."""
        common: Counter[_Label] = Counter(
            label for budget in budgets for values in _needed_labels(budget) for label in values
        )
        for place, budget in sorted(enumerate(budgets), key=lambda each: each[1].allowed):
            rarest: Iterable[_Label] = min(
                _needed_labels(budget), key=lambda values: sum(common[label] for label in values), default=(None,)
            )
            for label in rarest:
                self._by_label.setdefault(label, []).append((budget.allowed, place, budget))

    def counted(self, labels: Mapping[str, str]) -> Sequence[_Budget]:
        """Return the budgets that are counted for pods with these labels, by name."""
        candidates = heapq.merge(*(self._by_label.get(label, ()) for label in (None, *labels.items())))
        covering = (each for each in candidates if each[2].selector.matches(labels))
        return [budget for _, budget in sorted(each[1:] for each in islice(covering, MOST_BUDGETS))]


def _needed_labels(budget: _Budget) -> list[set[_Label]]:
    """Return for each label that pods need the values of which they need one."""
    needed = (each for each in budget.selector.requirements if each.operator == "In")
    return [{(each.key, value) for value in each.values} for each in needed]


class Budgets:
    """PodDisruptionBudgets of a cluster, compiled on first use and again when they have changed."""

    def __init__(self, objects: Mapping[tuple[str, str], dict[str, Any]]) -> None:
        self._objects = objects
        self._version = -1
        self._by_namespace: dict[str, list[_Key]] = {}
        self._seen: dict[_Key, dict[str, Any]] = {}
        """The objects at the last refresh."""
        self._compiled: dict[_Key, _Budget | None] = {}
        """None for a budget that covers no pod."""
        self._indexes: dict[str, _BudgetIndex] = {}
        self._coverage: WeakKeyDictionary[PodKinds, _Coverage] = WeakKeyDictionary()
        self._counted: WeakKeyDictionary[PodSignature, Sequence[_Budget]] = WeakKeyDictionary()

    def __bool__(self) -> bool:
        """Return True if there are budgets."""
        return bool(self._by_namespace)

    def refresh(self, version: int) -> None:
        """Take up changed budgets; `version` changes with any of them."""
        if version == self._version:
            return
        self._version = version
        objects, seen = self._objects, self._seen
        changed = {key for key in objects.keys() | seen.keys() if objects.get(key) is not seen.get(key)}
        self._seen = dict(objects)
        self._by_namespace.clear()
        for namespace, name in sorted(objects):  # a pod may violate one budget and thereby spare those after it
            self._by_namespace.setdefault(namespace, []).append((namespace, name))
        for key in changed:
            self._compiled.pop(key, None)
        namespaces = {namespace for namespace, _ in changed}
        for namespace in namespaces:
            self._indexes.pop(namespace, None)
        for signature in [each for each in self._counted if each.namespace in namespaces]:
            del self._counted[signature]
        self._coverage.clear()

    def split(self, pods: Iterable[Pod]) -> tuple[list[Pod], list[Pod]]:
        """Split the pods, evicted in this order, into those that violate a budget and the others.

        A pod is not counted in the budgets after the first one that it violates. kube-scheduler takes them in any
        order.
        """
        left: dict[_Budget, int] = {}
        violating: list[Pod] = []
        others: list[Pod] = []
        for pod in pods:
            (violating if _is_violated(self._covering(pod.signature), pod, left) else others).append(pod)
        return violating, others

    def violations(
        self, pods: NDArray[np.int32], kinds: PodKinds, pods_of: Callable[[int], Iterable[Pod]]
    ) -> NDArray[np.bool_] | None:
        """Return a mask of the pods that `split` returns as violating a budget; None if no budget covers any.

        `pods[i, j]` is the kind of pod `i` of node `j`, -1 if that has fewer pods; `pods_of(j)` returns these pods.
        """
        if not self._by_namespace:
            return None
        coverage = self._coverage.setdefault(kinds, _Coverage())
        coverage.extend(kinds.signatures, self._covering)
        numbers = coverage.numbers[:, pods]
        node, pod, level = np.nonzero(numbers.transpose(2, 1, 0) >= 0)
        if not len(node):
            return None
        budget = numbers[level, pod, node]
        groups = node * len(coverage.budgets) + budget
        in_groups = np.argsort(groups, kind="stable")  # the pods of a group stay in their order
        groups = groups[in_groups]
        place = np.arange(len(groups))
        is_first = np.concatenate(([True], groups[1:] != groups[:-1]))
        rank = place - np.maximum.accumulate(np.where(is_first, place, 0))
        broken = in_groups[rank >= coverage.allowed[budget[in_groups]]]
        violating = np.zeros(pods.shape, np.bool_)
        violating[pod[broken], node[broken]] = True
        several = np.flatnonzero(((numbers >= 0).sum(axis=0) > 1).any(axis=0))
        for j in np.union1d(node[coverage.names_pods[budget]], several).tolist():
            own = list(pods_of(j))
            uids = {violator.uid for violator in self.split(own)[0]}
            violating[: len(own), j] = [each.uid in uids for each in own]
        return violating

    def _covering(self, signature: PodSignature) -> Sequence[_Budget]:
        """Return the budgets that are counted for pods of a signature, by name."""
        counted = self._counted.get(signature)
        if counted is None:
            index = self._indexes.get(signature.namespace) or self._index(signature.namespace)
            counted = self._counted[signature] = index.counted(signature.labels) if signature.labels else ()
        return counted

    def _index(self, namespace: str) -> _BudgetIndex:
        """Index the budgets of a namespace; only those that have changed are compiled."""
        budgets = []
        for key in self._by_namespace.get(namespace, ()):
            if key not in self._compiled:
                self._compiled[key] = _compile(self._objects[key])
            if (budget := self._compiled[key]) is not None:
                budgets.append(budget)
        index = self._indexes[namespace] = _BudgetIndex(budgets)
        return index


def _is_violated(budgets: Iterable[_Budget], pod: Pod, left: dict[_Budget, int]) -> bool:
    """Take the pod's eviction from what is left of the budgets that cover it, until one of them does not allow it."""
    for budget in budgets:
        if budget.covers(pod):
            left[budget] = left.get(budget, budget.allowed) - 1
            if left[budget] < 0:
                return True
    return False


class _Coverage:
    """Budgets with a selector that matches a kind of pods."""

    def __init__(self) -> None:
        self.budgets: list[_Budget] = []
        self.numbers: NDArray[np.int32] = np.full((0, 1), -1, np.int32)
        """Numbers of the budgets of each kind, one column per kind, filled up with -1; the last column is of no pod."""
        self.allowed: Ints = np.zeros(0, np.int64)
        self.names_pods: Mask = np.zeros(0, np.bool_)
        """Mask of the budgets that name pods in status.disruptedPods, which they do not cover."""
        self._number_of: dict[_Budget, int] = {}
        self._of_kinds: list[list[int]] = []

    def extend(
        self, signatures: Sequence[PodSignature], budgets_of: Callable[[PodSignature], Sequence[_Budget]]
    ) -> None:
        """Add the kinds that are new."""
        known = len(self._of_kinds)
        if known == len(signatures):
            return
        for signature in signatures[known:]:
            self._of_kinds.append([self._number(budget) for budget in budgets_of(signature)])
        self.numbers = np.full((max(map(len, self._of_kinds)), len(signatures) + 1), -1, np.int32)
        for kind, numbers in enumerate(self._of_kinds):
            self.numbers[: len(numbers), kind] = numbers
        self.allowed = np.array([max(0, min(budget.allowed, _MOST_PODS)) for budget in self.budgets], np.int64)
        self.names_pods = np.array([bool(budget.processed) for budget in self.budgets], np.bool_)

    def _number(self, budget: _Budget) -> int:
        number = self._number_of.get(budget)
        if number is None:
            number = self._number_of[budget] = len(self.budgets)
            self.budgets.append(budget)
        return number


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
