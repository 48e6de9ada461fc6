"""Members of pod groups are counted as they are placed, succeed and end; requirements are read once per change."""

from __future__ import annotations

import pytest

from pyscheduler.api import PodGroup, Rejection
from pyscheduler.testing.builders import pod
from tests.unit.core.pod_groups.group_fixture import KEY, GroupFixture, member


@pytest.fixture
def fixture() -> GroupFixture:
    return GroupFixture()


def test_members_are_counted_with_those_that_are_placed_or_have_succeeded(fixture: GroupFixture) -> None:
    first, second = fixture.add("p1"), fixture.add("p2")
    group = fixture.manager.requirements(KEY)
    assert isinstance(group, PodGroup)
    assert fixture.manager.shortage(group, ()) == "0 of the 2 pods"
    fixture.manager.place(first.uid)
    assert fixture.manager.shortage(group, ()) == "1 of the 2 pods"
    assert fixture.manager.is_broken(group)
    assert fixture.manager.shortage(group, [second]) == ""
    fixture.manager.add_succeeded(second)
    assert fixture.manager.shortage(group, ()) == ""
    assert [each.name for each in fixture.manager[KEY].started] == ["p1", "p2"]


def test_displaced_member_does_not_count_unless_it_is_bound(fixture: GroupFixture) -> None:
    first = fixture.add("p1")
    fixture.manager.place(first.uid)
    fixture.manager.displace(first.uid)
    assert fixture.manager[KEY].placed == set()
    fixture.manager.set_pod(member("p1").on("n1").build())
    fixture.manager.displace(first.uid)
    assert fixture.manager[KEY].placed == {first.uid}


def test_terminating_member_is_removed(fixture: GroupFixture) -> None:
    fixture.add("p1")
    fixture.add("p2")
    fixture.manager.set_pod(member("p1").deleting().build())
    assert [each.name for each in fixture.manager[KEY].pods.values()] == ["p2"]


def test_group_without_members_is_removed(fixture: GroupFixture) -> None:
    first = fixture.add("p1")
    fixture.manager.take_changed()
    fixture.manager.remove(first.uid)
    assert fixture.manager.get(KEY) is None
    assert fixture.manager.take_changed() == [KEY]
    assert not fixture.manager.changed


def test_pod_that_loses_its_label_leaves_the_group(fixture: GroupFixture) -> None:
    fixture.add("p1")
    fixture.manager.set_pod(pod("p1").build())
    assert fixture.manager.get(KEY) is None


def test_requirements_are_read_once_until_members_change(fixture: GroupFixture) -> None:
    first = fixture.add("p1")
    for _ in range(3):
        fixture.manager.requirements(KEY)
    assert fixture.plugin.reads == 1
    fixture.manager.set_pod(member("p1", role="worker").build())
    fixture.manager.requirements(KEY)
    assert fixture.plugin.reads == 2
    fixture.add("p2")
    fixture.manager.requirements(KEY)
    reads = fixture.plugin.reads
    fixture.manager.remove(first.uid)
    fixture.manager.requirements(KEY)
    assert fixture.plugin.reads == reads + 1


def test_members_of_each_role_are_required(fixture: GroupFixture) -> None:
    fixture.plugin.requirements = group = PodGroup(KEY, 2, min_count_by_role={"launcher": 1})
    workers = [fixture.add(f"p{i}", "worker") for i in range(2)]
    assert fixture.manager.shortage(group, workers) == '0 of the 1 pods with role "launcher"'
    launcher = fixture.add("p3", "launcher")
    assert fixture.manager.shortage(group, [*workers, launcher]) == ""


def test_priority_of_a_group_is_its_own_or_the_least_of_its_members(fixture: GroupFixture) -> None:
    members = [member(f"p{value}").priority(value).build() for value in (5, 3)]
    for each in members:
        fixture.manager.set_pod(each)
    assert fixture.manager.priority_of(KEY, members) == 3
    assert fixture.manager.effective_priority(members[0]) == 5
    fixture.plugin.requirements = PodGroup(KEY, 2, priority=7)
    fixture.manager.remove(fixture.add("p9").uid)
    assert fixture.manager.priority_of(KEY, members) == 7
    assert fixture.manager.effective_priority(members[0]) == 7


def test_group_is_rejected_if_the_plugin_raises(fixture: GroupFixture) -> None:
    fixture.plugin.raises = True
    fixture.add("p1")
    assert isinstance(fixture.manager.requirements(KEY), Rejection)
    assert "LabelGroups" in fixture.manager.reason_to_wait(KEY, ())
    assert fixture.failures.points == ["LabelGroups PodGroup"]


def test_pod_is_scheduled_by_itself_if_the_plugin_raises_for_it(fixture: GroupFixture) -> None:
    broken = pod("p1").label("broken").build()
    fixture.manager.set_pod(broken)
    assert fixture.manager.key_of(broken) is None
    assert fixture.failures.points == ["LabelGroups PodGroup"]


def test_members_are_found_again_with_other_plugins(fixture: GroupFixture) -> None:
    first, second = fixture.add("p1"), fixture.add("p2")
    fixture.manager.add_succeeded(second)
    fixture.manager.use({"default-scheduler": fixture.plugin}, None, [first], {first.uid})
    assert {each.name for each in fixture.manager[KEY].started} == {"p1", "p2"}
    fixture.manager.use({}, None, [first], ())
    assert not fixture.manager.is_enabled
    assert fixture.manager.key_of(first) is None


def test_roles_are_compared_once_for_each_pod() -> None:
    compared = 0

    class Role(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    names = [f"r{i}" for i in range(50)]
    group = PodGroup(KEY, 1, min_count_by_role=dict.fromkeys(names, 1))
    assert group.shortage([Role(name) for name in names]) == ""
    assert group.shortage([Role(name) for name in names[:-1]]) == '0 of the 1 pods with role "r49"'
    assert compared <= 2 * len(names)
