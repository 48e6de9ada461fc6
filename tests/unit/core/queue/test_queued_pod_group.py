"""The priority of a pod group is the least of its pending members', as they come, go and change."""

from __future__ import annotations

import pytest

from pyscheduler.api import PodGroup, PodGroupKey
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.queue.queued_pod_group import MemberPods, QueuedPodGroup
from pyscheduler.testing.builders import pod

KEY = PodGroupKey("default", "group")


def queued(name: str, priority: int) -> QueuedPod:
    return QueuedPod(pod(name).priority(priority).build(), 0.0)


@pytest.fixture
def entry() -> QueuedPodGroup:
    """A group with members of the priorities 5 and 7."""
    created = QueuedPodGroup.of(KEY, queued("a", 5), 0.0)
    created.add_member(queued("b", 7))
    return created


def priority(entry: QueuedPodGroup) -> int:
    entry.set_requirements(PodGroup(KEY, 2))
    return entry.pod.priority


def test_lower_member_lowers_the_priority(entry: QueuedPodGroup) -> None:
    assert priority(entry) == 5
    entry.add_member(queued("c", 3))
    assert priority(entry) == 3
    entry.add_member(queued("d", 4))
    assert priority(entry) == 3


def test_priority_rises_when_the_lowest_member_leaves(entry: QueuedPodGroup) -> None:
    assert priority(entry) == 5
    removed = entry.remove_member(next(iter(entry.members)))
    assert removed.pod.priority == 5
    assert priority(entry) == 7


def test_priority_follows_a_changed_member(entry: QueuedPodGroup) -> None:
    assert priority(entry) == 5
    uid = next(iter(entry.members))
    entry.replace_pod(pod("a").uid(uid).priority(9).build())
    assert priority(entry) == 7


def test_own_priority_of_the_group_is_authoritative(entry: QueuedPodGroup) -> None:
    entry.set_requirements(PodGroup(KEY, 2, priority=1))
    assert entry.pod.priority == 1


def test_pods_of_members_are_a_live_view(entry: QueuedPodGroup) -> None:
    pods = MemberPods(entry.members.values())
    added = queued("c", 3)
    entry.add_member(added)
    assert [each.name for each in pods] == ["a", "b", "c"]
    assert len(pods) == 3
    assert added.pod in pods
    assert queued("other", 3).pod not in pods
