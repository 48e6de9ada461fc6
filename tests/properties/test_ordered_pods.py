"""Pods sorted by key, against a plain sorted list: hundreds of them, so that both the heap and the list are used."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop
from itertools import count

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pyscheduler.api import QueuedPod
from pyscheduler.core.queue.entry import TierIndex
from pyscheduler.core.queue.ordered import Entry, OrderedPods, _SortedEntries
from pyscheduler.testing.builders import pod

UNSORTABLE = 7
"""Key for which the plugin raises."""
Operation = tuple[str, int]
NAMES = ("add", "add", "pop", "pop", "remove", "replace", "first", "iterate", "take")
OPERATIONS = st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 9)), min_size=20, max_size=120)


class OrderedPodsAndModel:
    """A queue, and its pods by UID with the keys that define their order."""

    def __init__(self, initial: int) -> None:
        self.index: TierIndex = {}
        self.pods, self.others = self.new(), self.new()
        self.model: dict[str, tuple[tuple[int, int], QueuedPod]] = {}
        self.uids = count()
        for i in range(initial):
            self.add(i % 10)

    def new(self) -> OrderedPods:
        return OrderedPods(_key, _fallback, lambda _: None, self.index)

    def add(self, key: int, pods: OrderedPods | None = None) -> None:
        uid = next(self.uids)
        queued = QueuedPod(pod(f"p{uid}").priority(key).build(), 0.0)
        (self.pods if pods is None else pods).add(queued)
        self.model[queued.pod.uid] = (key, uid), queued

    def apply(self, operation: str, number: int) -> None:
        """Apply one operation, and check its result."""
        if operation == "add":
            self.add(number)
        elif operation == "take":
            for key in (9, number, 0):
                self.add(key, self.others)
            assert len(list(self.pods.take(self.others))) == 3
            assert not self.others.entries
        elif operation == "iterate":
            assert [queued.pod.uid for queued in self.pods] == self.order(lambda key: (key == UNSORTABLE, key))
        elif self.model:
            self.apply_to_one(operation, number)

    def apply_to_one(self, operation: str, number: int) -> None:
        expected = self.order(lambda key: (False, key))
        if operation == "first":
            head = self.pods.first()
            assert head is not None
            assert head.pod.uid == expected[0]
        elif operation == "pop":
            popped = self.pods.pop()
            assert popped is not None
            assert popped.pod.uid == expected[0]
            del self.model[expected[0]]
        else:
            uid = expected[number % len(expected)]
            (_, arrival), queued = self.model.pop(uid)
            if operation == "remove":
                assert self.pods.remove(uid) is queued
            else:
                self.pods.replace(pod(uid).priority(number).build())
                self.model[uid] = (number, arrival), queued

    def order(self, by: Callable[[int], tuple[bool, int]]) -> list[str]:
        return sorted(self.model, key=lambda uid: (by(self.model[uid][0][0]), self.model[uid][0][1]))

    def check(self) -> None:
        assert self.pods.entries.keys() == self.index.keys() == self.model.keys()
        assert all(self.index[uid] is self.pods for uid in self.model)


def _key(queued: QueuedPod) -> int:
    if queued.pod.priority == UNSORTABLE:
        raise RuntimeError("broken")
    return queued.pod.priority


def _fallback(queued: QueuedPod) -> int:
    return queued.pod.priority


def _play(initial: int, operations: list[Operation]) -> None:
    pair = OrderedPodsAndModel(initial)
    for operation in [*operations, *[("pop", 0)] * 40]:
        pair.apply(*operation)
        pair.check()


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([0, 100, 300]), OPERATIONS)
def test_pods_are_in_the_order_of_a_sorted_list(initial: int, operations: list[Operation]) -> None:
    _play(initial, operations)


def _keep_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    def pop(self: _SortedEntries) -> Entry | None:
        self._sort()
        return self._sorted.pop() if self._sorted else None

    monkeypatch.setattr(_SortedEntries, "pop", pop)


def _prefer_the_heap(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _SortedEntries.pop

    def pop(self: _SortedEntries) -> Entry | None:
        return heappop(self._heap) if len(self._heap) > 3 else whole(self)

    monkeypatch.setattr(_SortedEntries, "pop", pop)


def _drop_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_SortedEntries, "put_back", lambda self, entry: None)


@pytest.mark.parametrize("plant", [_keep_removed, _prefer_the_heap, _drop_the_first])
def test_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    search = settings(
        max_examples=500,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    play = search(given(st.sampled_from([0, 100, 300]), OPERATIONS)(_play))
    with pytest.raises((AssertionError, KeyError)):
        play()
