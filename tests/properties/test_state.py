"""The cluster state, kept up event by event, is what it would be if it were built afresh; trials leave no trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.core.state import ClusterState
from pyscheduler.core.state.node import NodeRow
from pyscheduler.core.state.node_columns import NodeColumns
from pyscheduler.core.state.placed import PlacedPods
from tests.properties.profiles import assert_caught, quick
from tests.properties.state_snapshot import assert_consistent, of_cluster
from tests.properties.state_steps import ALL_STEPS, POD_STEPS, StateWorld, Step, steps

Plant = Callable[[pytest.MonkeyPatch], None]


def prove_rebuilt(script: list[Step]) -> None:
    world = StateWorld()
    for step in script:
        world.do(step)
    picture, fresh = of_cluster(world.state), of_cluster(world.rebuilt())
    for seen in (picture, fresh):
        # The pods come as equal objects rather than the same.
        seen["pods"] = {
            name: {p.uid: (p.signature, p.deleting) for p in on.values()} for name, on in seen["pods"].items()
        }
    assert picture == fresh
    assert_consistent(world.state)


@quick(150)
@given(steps(*ALL_STEPS))
def test_a_state_kept_up_equals_one_built_afresh(script: list[Step]) -> None:
    prove_rebuilt(script)


_PODS = steps(*POD_STEPS, longest=6)
_INNERMOST: st.SearchStrategy[Any] = st.tuples(_PODS, st.just([]), _PODS)
_TRIALS = st.recursive(_INNERMOST, lambda inner: st.tuples(_PODS, st.lists(inner, max_size=2), _PODS), max_leaves=4)
_STORIES = st.tuples(steps(*ALL_STEPS, longest=20), _TRIALS, st.booleans())


def prove_undone(story: tuple[list[Step], Any, bool]) -> None:
    script, nested, raises = story
    world = StateWorld()
    for step in script:
        world.do(step)
    before, order = of_cluster(world.state), _order(world.state)
    _try_out(world, nested, raises)
    assert of_cluster(world.state) == before
    assert _order(world.state) == order
    assert_consistent(world.state)


def _try_out(world: StateWorld, nested: Any, raises: bool) -> None:
    """Do the steps in a trial, and trials within it between them; maybe something goes wrong in the end."""
    first, inner, last = nested
    pods = dict(world.pods)
    try:
        with world.state.dry_run():
            for step in first:
                world.do(step)
            between = of_cluster(world.state), _order(world.state)
            for each in inner:
                _try_out(world, each, raises)
                assert (of_cluster(world.state), _order(world.state)) == between
            for step in last:
                world.do(step)
            if raises:
                raise ZeroDivisionError
    except ZeroDivisionError:
        assert raises
    world.pods = pods


def _order(state: ClusterState) -> dict[str, list[str]]:
    return {node.name: list(node.pods) for node in state.rows}


@quick(120)
@given(_STORIES)
def test_a_trial_leaves_the_state_as_it_was(story: tuple[list[Step], Any, bool]) -> None:
    prove_undone(story)


# -- planted bugs ------------------------------------------------------------------------------------------------


def _moved_row_is_not_written(patch: pytest.MonkeyPatch) -> None:
    write = ClusterState._write

    def careless(self: ClusterState, node: NodeRow) -> None:
        if node.row == len(self.rows) - 1 or self._by_name.get(node.name) is not node or node.row == 0:
            write(self, node)

    patch.setattr(ClusterState, "_write", careless)


def _old_resources_stay(patch: pytest.MonkeyPatch) -> None:
    def write_allocatable(self: NodeColumns, row: int, amounts: dict[str, int]) -> None:
        for resource, amount in amounts.items():
            self._column(self._allocatable, resource).set(row, amount)

    patch.setattr(NodeColumns, "write_allocatable", write_allocatable)


def _ports_stay_taken(patch: pytest.MonkeyPatch) -> None:
    count = NodeRow._count_ports
    patch.setattr(NodeRow, "_count_ports", lambda self, ports, sign: count(self, ports, sign) if sign > 0 else None)


def _images_are_never_discounted(patch: pytest.MonkeyPatch) -> None:
    count = ClusterState._count_images
    patch.setattr(ClusterState, "_count_images", lambda self, images, sign: sign > 0 and count(self, images, sign))


def _ghosts_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    remove_node = ClusterState.remove_node

    def remove(self: ClusterState, name: str) -> Any:
        before = remove_node(self, name)
        self._missing_nodes.clear()
        return before

    patch.setattr(ClusterState, "remove_node", remove)


def _same_shape_is_enough(patch: pytest.MonkeyPatch) -> None:
    def replace(self: ClusterState, pod: Any) -> None:
        self._node_of[pod.uid].pods[pod.uid] = pod

    patch.setattr(ClusterState, "replace", replace)


def _counts_do_not_move(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PlacedPods, "moved", lambda *_: None)


def _counts_forget_ghosts(patch: pytest.MonkeyPatch) -> None:
    """Pods that came before their node are not counted when it comes."""
    changed = PlacedPods.changed

    def careless(self: PlacedPods, node: NodeRow, pod: Any, sign: int) -> None:
        if sign < 0 or len(node.pods) < 2:
            changed(self, node, pod, sign)

    patch.setattr(PlacedPods, "changed", careless)


def _counts_overlook_deletions(patch: pytest.MonkeyPatch) -> None:
    replace = ClusterState.replace

    def careless(self: ClusterState, pod: Any) -> None:
        placed, self.placed = self.placed, PlacedPods()
        replace(self, pod)
        self.placed = placed

    patch.setattr(ClusterState, "replace", careless)


@pytest.mark.parametrize(
    "plant",
    [
        _counts_do_not_move,
        _counts_forget_ghosts,
        _counts_overlook_deletions,
        _moved_row_is_not_written,
        _old_resources_stay,
        _ports_stay_taken,
        _images_are_never_discounted,
        _ghosts_are_forgotten,
        _same_shape_is_enough,
    ],
)
def test_the_comparison_with_a_fresh_state_notices(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert_caught(prove_rebuilt, steps(*ALL_STEPS), AssertionError, KeyError, IndexError)


def _oldest_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("pyscheduler.core.state.cluster.reversed", list, raising=False)


def _removals_are_for_good(patch: pytest.MonkeyPatch) -> None:
    revert = ClusterState._revert
    patch.setattr(ClusterState, "_revert", lambda self, *step: revert(self, *step) if step[2] is None else None)


def _order_is_lost(patch: pytest.MonkeyPatch) -> None:
    revert = ClusterState._revert
    patch.setattr(
        ClusterState, "_revert", lambda self, pod, name, behind: revert(self, pod, name, None if behind is None else [])
    )


def _errors_keep_the_trial(patch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def trial(self: ClusterState) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(whole(self))
            try:
                yield
            except ZeroDivisionError:
                open_for_ever.append(stack.pop_all())
                raise

    whole: Callable[[ClusterState], AbstractContextManager[None]] = ClusterState.dry_run
    open_for_ever: list[ExitStack] = []
    patch.setattr(ClusterState, "dry_run", trial)


@pytest.mark.parametrize("plant", [_oldest_first, _removals_are_for_good, _order_is_lost, _errors_keep_the_trial])
def test_the_look_before_and_after_a_trial_notices(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert_caught(prove_undone, _STORIES, AssertionError, KeyError)
