"""Requirements of a pod group are read when they may have changed, and not for each of its members that comes."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from pyscheduler.api import Pod, PodGroup, PodGroupKey, PodGroupPlugin, Rejection
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.pod_groups.manager import PodGroupManager
from pyscheduler.testing.builders import pod

KEY = PodGroupKey("default", "group")
SIZE = 5


class CountingPlugin(PodGroupPlugin):
    """A group of all pods, with the minimum in a label of the member that came last."""

    name = "CountingPlugin"
    reads = 0

    def group_of(self, pod: Pod) -> PodGroupKey | None:
        return KEY

    def pod_group(self, key: PodGroupKey, members: Collection[Pod]) -> PodGroup | Rejection:
        self.reads += 1
        return PodGroup(key, int(list(members)[-1].labels["min"]))


@pytest.fixture
def plugin() -> CountingPlugin:
    return CountingPlugin(CountingPlugin.Args(), empty_handle())


@pytest.fixture
def manager(plugin: CountingPlugin) -> PodGroupManager:
    created = PodGroupManager(Instrument())
    created.use({"default-scheduler": plugin}, None, (), ())
    return created


def member(index: int, minimum: int = SIZE) -> Pod:
    return pod(f"p{index}").label("index", str(index)).label("min", str(minimum)).build()


def test_requirements_are_not_read_for_each_member_of_an_incomplete_group(
    manager: PodGroupManager, plugin: CountingPlugin
) -> None:
    members, reasons = [member(i) for i in range(SIZE)], []
    for i, each in enumerate(members, 1):
        manager.set_pod(each)
        reasons.append(manager.reason_to_wait(KEY, members[:i]))
    assert reasons == [f"pod group default/group has only {i} of the 5 pods that it needs" for i in range(1, SIZE)] + [
        ""
    ]
    assert plugin.reads == 2, "for the first member, and when the group is complete"


def test_changed_minimum_counts_when_the_former_one_is_reached(manager: PodGroupManager) -> None:
    members = [*(member(i) for i in range(SIZE - 1)), member(SIZE, minimum=7)]
    for i, each in enumerate(members, 1):
        manager.set_pod(each)
        reason = manager.reason_to_wait(KEY, members[:i])
    assert reason == "pod group default/group has only 5 of the 7 pods that it needs"


def test_requirements_are_read_again_after_a_member_was_removed(
    manager: PodGroupManager, plugin: CountingPlugin
) -> None:
    first, second = member(0), member(1)
    manager.set_pod(first)
    manager.reason_to_wait(KEY, [first])
    manager.set_pod(second)
    manager.remove(second.uid)
    assert manager.reason_to_wait(KEY, [first])
    assert plugin.reads == 2
