"""Order of active pods, also with a QueueSort plugin that raises."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import NoArgs, QueuedPod, QueueSortPlugin
from pyscheduler.core.queue.ordered import ActiveQueue
from pyscheduler.testing.builders import pod
from tests.unit.core.queue.queue_fixture import NO_HANDLE, PrioritySort, Report


class Sort(QueueSortPlugin):
    """Sorts by the value in `keys` for a pod's name; an exception there is raised."""

    name = "Sort"

    def __init__(self, **keys: Any) -> None:
        super().__init__(NoArgs(), NO_HANDLE)
        self.keys = keys

    def sort_key(self, queued: QueuedPod) -> Any:
        key = self.keys[queued.pod.name]
        if isinstance(key, Exception):
            raise key
        return key


class ByLess(QueueSortPlugin):
    """Sorts shorter names first, by `less` alone."""

    name = "ByLess"

    def __init__(self) -> None:
        super().__init__(NoArgs(), NO_HANDLE)
        self.broken = False

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        if self.broken:
            raise RuntimeError("broken")
        return len(a.pod.name) < len(b.pod.name)


def queued(name: str, priority: int = 0, at: float = 0.0) -> QueuedPod:
    return QueuedPod(pod(name).priority(priority).build(), at)


def filled(sort: QueueSortPlugin, *pods: QueuedPod, report: Report | None = None) -> ActiveQueue:
    active = ActiveQueue(sort, report or Report(), {})
    for each in pods:
        active.add(each)
    return active


def names(active: ActiveQueue) -> list[str]:
    """Pop all pods and return their names, checking that `first` returns the pod that is popped next."""
    popped = []
    while (head := active.first()) is not None:
        assert active.pop() is head
        popped.append(head.pod.name)
    assert active.pop() is None
    assert len(active) == 0
    return popped


def test_pods_are_popped_by_sort_key_then_by_arrival() -> None:
    pods = [queued("late", at=2), queued("b", at=1), queued("a", at=1), queued("vip", priority=9, at=3)]
    assert names(filled(PrioritySort(), *pods)) == ["vip", "b", "a", "late"]


def test_plugin_may_define_less_instead_of_a_sort_key() -> None:
    assert names(filled(ByLess(), queued("ccc"), queued("a"), queued("bb"), queued("d"))) == ["a", "d", "bb", "ccc"]


@pytest.mark.parametrize("removed", ["a", "b", "c"])
def test_pod_is_removed_by_uid(removed: str) -> None:
    active = filled(ByLess(), queued("a"), queued("b"), queued("c"))
    assert active.remove(removed).pod.name == removed
    assert active.get(removed) is None
    assert names(active) == [name for name in "abc" if name != removed]


def test_updated_pod_is_sorted_again_and_keeps_its_arrival() -> None:
    active = filled(PrioritySort(), queued("a"), queued("b"), queued("c"))
    active.replace(pod("c").priority(5).build())
    active.replace(pod("a").label("x").build())
    changed = active.get("a")
    assert changed is not None
    assert changed.pod.labels == {"x": ""}
    assert names(active) == ["c", "a", "b"]


def test_pods_with_a_sort_key_that_raises_are_ordered_by_priority_and_time() -> None:
    report = Report()
    sort = Sort(ok=1, bad=KeyError("x"), worse=KeyError("y"), last=2)
    pods = [queued("ok", 5), queued("bad", 9), queued("worse", 4), queued("last", 1)]
    active = filled(sort, *pods, report=report)
    assert report.failures == [("Sort", "QueueSort")] * 2
    assert len(active) == 4
    assert all(active.get(each.pod.uid) is each for each in pods)
    assert [each.pod.name for each in active] == ["ok", "last", "bad", "worse"]
    assert names(active) == ["bad", "ok", "worse", "last"]


def test_no_pod_is_lost_if_sort_keys_cannot_be_compared() -> None:
    report = Report()
    active = filled(
        Sort(text="x", number=1, other=2), queued("text"), queued("number", 1), queued("other"), report=report
    )
    assert active.remove("other").pod.name == "other"
    assert names(active) == ["number", "text"]
    assert report.failures


def test_pods_can_be_removed_after_less_starts_to_raise() -> None:
    report, sort = Report(), ByLess()
    active = filled(sort, queued("ccc", 3), queued("a", 1), queued("bb", 2), report=report)
    sort.broken = True
    assert active.remove("bb").pod.name == "bb"
    assert names(active) == ["ccc", "a"]
    assert report.failures


def test_order_is_rebuilt_if_sort_keys_change_while_pods_are_queued() -> None:
    class Reversible(ByLess):
        is_reversed = False

        def less(self, a: QueuedPod, b: QueuedPod) -> bool:
            return super().less(b, a) if self.is_reversed else super().less(a, b)

    sort = Reversible()
    active = filled(sort, *(queued("x" * n) for n in range(1, 6)))
    sort.is_reversed = True
    assert active.remove("x") is not None
    assert names(active) == ["xxxxx", "xxxx", "xxx", "xx"]
