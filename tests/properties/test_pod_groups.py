"""Invariants of pod groups: none is partly bound, nothing that fits stays pending, no eviction is in vain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import replace

from pyscheduler.api import EvictionUnit, Pod
from pyscheduler.api.queued import QueuedPod
from pyscheduler.api.steps import Steps
from pyscheduler.core.pod_groups import eviction_units, full_nodes, placement, preemption
from pyscheduler.core.pod_groups.manager import PodGroupManager
from pyscheduler.core.pod_groups.placement import PlacementSearch
from pyscheduler.core.queue import SchedulingQueue
from tests.properties.pod_group_model import RECONFIGURED, STEPS, PodGroupModel, Step, config
from tests.properties.pod_group_preemption import CASES, Case, check_preemption, check_restarts
from tests.properties.profiles import assert_caught, quick


def run(script: list[Step], result_cache: str = "On") -> PodGroupModel:
    """Run the steps and a minute without further ones."""
    model = PodGroupModel(config(result_cache=result_cache))
    for step in script:
        model.do(step)
    model.calm_down()
    return model


def check_bound(script: list[Step]) -> None:
    """Check that groups are bound as a whole, and that nothing that fits is pending."""
    missed = run(script).missed()
    assert not missed, f"{missed} would fit"


@quick(60)
@given(STEPS)
def test_groups_are_bound_as_a_whole_as_soon_as_they_fit(script: list[Step]) -> None:
    check_bound(script)


def check_reconfigured(script: list[Step]) -> None:
    """Check the same while the plugin is enabled and disabled."""
    check_bound([*script, ("enable", 0, 0)])


@quick(30)
@given(RECONFIGURED)
def test_groups_are_bound_whatever_is_reconfigured(script: list[Step]) -> None:
    check_reconfigured(script)


@quick(100)
@given(CASES)
def test_preemption_evicts_only_what_makes_room(case: Case) -> None:
    check_preemption(case)


@quick(25)
@given(CASES)
def test_restart_changes_no_outcome(case: Case) -> None:
    check_restarts(case)


def check_commands(script: list[Step]) -> None:
    """Check that the commands are the same on another run, and without the result cache."""
    commands = run(script).commands()
    assert commands == run(script).commands()
    assert commands == run(script, result_cache="Off").commands()


@quick(25)
@given(STEPS)
def test_commands_depend_on_events_alone(script: list[Step]) -> None:
    check_commands(script)


def check_counted(script: list[Step]) -> None:
    """Check that the commands are the same if groups that lack room are counted, however small they are."""
    searched = run(script).commands()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placement, "COUNTED_FROM", 2)
        assert run(script).commands() == searched


@quick(25)
@given(STEPS)
def test_count_of_members_has_the_outcome_of_a_search(script: list[Step]) -> None:
    check_counted(script)


# -- planted bugs --------------------------------------------------------------------------------------------------

Plant = Callable[[pytest.MonkeyPatch], None]


def _undo_all_but_one(patch: pytest.MonkeyPatch) -> None:
    def undo(self: PlacementSearch, count: int = 0) -> Steps[None]:
        yield from ()
        while len(self.placed) > count + 1:
            self.forget(self.placed[-1])

    patch.setattr(PlacementSearch, "undo_in_steps", undo)


def _place_fewer_than_needed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PlacementSearch, "is_short", lambda self, remaining: not (self.placed or remaining))


def _ignore_succeeded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PodGroupManager, "add_succeeded", lambda self, pod: False)


def _ignore_changed_groups(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SchedulingQueue, "update_groups", lambda self, now: self._groups.take_changed())


def _evict_pods_that_a_group_needs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(preemption, "leaves_minimums", lambda context, victims: True)


@pytest.mark.parametrize(
    ("plant", "message"),
    [
        (_undo_all_but_one, "."),
        (_place_fewer_than_needed, "pods of . have a node"),
        (_ignore_succeeded, "would fit|pods of . have a node"),
        (_ignore_changed_groups, "would fit"),
        (_evict_pods_that_a_group_needs, "pods of . have a node"),
    ],
)
def test_property_catches_planted_bug(plant: Plant, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert_caught(check_bound, STEPS, AssertionError, match=message)


def _count_one_member_less(patch: pytest.MonkeyPatch) -> None:
    run_count = full_nodes.MemberCount.run

    def one_less(self: full_nodes.MemberCount, *args: Any) -> full_nodes.MembersThatFit | None:
        found = run_count(self, *args)
        return found and replace(found, count=found.count - 1)

    patch.setattr(full_nodes.MemberCount, "run", one_less)


def test_property_of_counted_members_catches_planted_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    _count_one_member_less(monkeypatch)
    assert_caught(check_counted, STEPS, AssertionError)


def _ignore_priority_of_groups(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PodGroupManager, "priority_of", lambda self, key, pods: -1)


def _evict_without_need(patch: pytest.MonkeyPatch) -> None:
    def put_none_back(
        self: preemption.GroupPreemptionSearch, removed: Sequence[EvictionUnit], terminating: Sequence[Pod]
    ) -> Steps[list[EvictionUnit]]:
        yield from ()
        return list(removed)

    patch.setattr(preemption.GroupPreemptionSearch, "_without_unneeded", put_none_back)


def _never_backtrack(patch: pytest.MonkeyPatch) -> None:
    def find_nothing(self: PlacementSearch, members: Sequence[QueuedPod]) -> Steps[bool]:
        yield from ()
        return False

    patch.setattr(PlacementSearch, "_place_with_backtracking", find_nothing)


def _keep_surplus_of_evicted_groups(patch: pytest.MonkeyPatch) -> None:
    units_of_group = eviction_units._units_of_group

    def without_surplus(*args: Any) -> list[EvictionUnit]:
        units = units_of_group(*args)
        surplus = {pod.uid for unit in units[:-1] for pod in unit.pods}
        return [*units[:-1], replace(units[-1], pods=tuple(p for p in units[-1].pods if p.uid not in surplus))]

    patch.setattr(eviction_units, "_units_of_group", without_surplus)


@pytest.mark.parametrize(
    ("plant", "message"),
    [
        (_ignore_priority_of_groups, "must not be evicted|pods of . have a node|evicted for nothing"),
        (_evict_without_need, "evicted for nothing"),
        (_never_backtrack, "have a node"),
        (_keep_surplus_of_evicted_groups, "are left|are bound"),
    ],
)
def test_preemption_property_catches_planted_bug(plant: Plant, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert_caught(check_preemption, CASES, AssertionError, match=message, examples=600)


def test_restart_property_catches_uncounted_members(monkeypatch: pytest.MonkeyPatch) -> None:
    set_pod = PodGroupManager.set_pod

    def set_uncounted(self: PodGroupManager, pod: Pod) -> None:
        known = self._key_of.get(pod.uid)
        counts = known is not None and pod.uid in self._groups[known].placed
        set_pod(self, pod)
        if not counts and pod.uid in self._key_of:
            self._groups[self._key_of[pod.uid]].placed.discard(pod.uid)

    monkeypatch.setattr(PodGroupManager, "set_pod", set_uncounted)
    assert_caught(check_restarts, CASES, AssertionError, match="after a restart|are bound")
