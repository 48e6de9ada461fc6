"""The order in which active pods are tried, and what a broken QueueSort plugin does to it."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import NoArgs, QueuedPod, QueueSortPlugin
from pyscheduler.core.queue.active import ActiveQueue
from pyscheduler.testing.builders import pod
from tests.unit.core.queue.queue_fixture import NO_HANDLE, PrioritySort, Report


class Sort(QueueSortPlugin):
    """Sorts by what `keys` holds for a pod's name; an exception there is raised."""

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
    """Shorter names first, told by `less` alone."""

    name = "ByLess"

    def __init__(self) -> None:
        super().__init__(NoArgs(), NO_HANDLE)
        self.broken = False

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        if self.broken:
            raise RuntimeError("no idea")
        return len(a.pod.name) < len(b.pod.name)


def queued(name: str, priority: int = 0, at: float = 0.0) -> QueuedPod:
    return QueuedPod(pod(name).priority(priority).build(), at)


def filled(sort: QueueSortPlugin, *pods: QueuedPod, report: Report | None = None) -> ActiveQueue:
    active = ActiveQueue(sort, report or Report())
    for each in pods:
        active.add(each)
    return active


def names(active: ActiveQueue) -> list[str]:
    """The names in the order in which they are popped; `first` must have announced each."""
    popped = []
    while (head := active.first()) is not None:
        assert active.pop() is head
        popped.append(head.pod.name)
    assert active.pop() is None
    assert len(active) == 0
    return popped


def test_the_sort_key_orders_and_ties_go_by_arrival() -> None:
    pods = [queued("late", at=2), queued("b", at=1), queued("a", at=1), queued("vip", priority=9, at=3)]
    assert names(filled(PrioritySort(), *pods)) == ["vip", "b", "a", "late"]


def test_less_alone_is_enough() -> None:
    assert names(filled(ByLess(), queued("ccc"), queued("a"), queued("bb"), queued("d"))) == ["a", "d", "bb", "ccc"]


@pytest.mark.parametrize("gone", ["a", "b", "c"])
def test_a_pod_is_removed_by_its_uid(gone: str) -> None:
    active = filled(ByLess(), queued("a"), queued("b"), queued("c"))
    assert active.remove(gone) is not None
    assert active.remove(gone) is None
    assert gone not in active
    assert active.get(gone) is None
    assert names(active) == [name for name in "abc" if name != gone]


def test_a_new_version_changes_the_place_but_not_the_arrival() -> None:
    active = filled(PrioritySort(), queued("a"), queued("b"), queued("c"))
    assert active.replace(pod("c").priority(5).build())
    assert active.replace(pod("a").label("x").build())
    assert not active.replace(pod("stranger").build())
    changed = active.get("a")
    assert changed is not None
    assert changed.pod.labels == {"x": ""}
    assert names(active) == ["c", "a", "b"]


def test_pods_whose_key_raises_take_their_place_by_priority_and_time() -> None:
    report = Report()
    sort = Sort(ok=1, bad=KeyError("x"), worse=KeyError("y"), last=2)
    pods = [queued("ok", 5), queued("bad", 9), queued("worse", 4), queued("last", 1)]
    active = filled(sort, *pods, report=report)
    assert report.failures == [("Sort", "QueueSort")] * 2
    assert len(active) == 4
    assert all(each.pod.uid in active for each in pods)
    assert [each.pod.name for each in active] == ["ok", "last", "bad", "worse"]
    assert names(active) == ["bad", "ok", "worse", "last"]


def test_keys_that_do_not_compare_lose_no_pod() -> None:
    report = Report()
    active = filled(
        Sort(text="x", number=1, other=2), queued("text"), queued("number", 1), queued("other"), report=report
    )
    assert report.failures
    assert active.remove("other") is not None
    assert names(active) == ["number", "text"]


def test_a_less_that_starts_to_raise_still_lets_pods_go() -> None:
    report, sort = Report(), ByLess()
    active = filled(sort, queued("ccc", 3), queued("a", 1), queued("bb", 2), report=report)
    sort.broken = True
    assert active.remove("bb") is not None
    assert report.failures
    assert names(active) == ["ccc", "a"]


def test_a_key_that_changes_while_the_pod_waits_does_no_harm() -> None:
    class Moody(ByLess):
        turned = False

        def less(self, a: QueuedPod, b: QueuedPod) -> bool:
            return super().less(b, a) if self.turned else super().less(a, b)

    sort = Moody()
    active = filled(sort, *(queued("x" * n) for n in range(1, 6)))
    sort.turned = True
    assert active.remove("x") is not None
    assert names(active) == ["xxxxx", "xxxx", "xxx", "xx"]
