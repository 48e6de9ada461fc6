"""The incrementally updated cluster state equals a rebuilt one, and dry runs leave no trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.api import NodeFields
from pyscheduler.core.state import ClusterState
from pyscheduler.core.state.node import NodeRow
from pyscheduler.core.state.node_columns import NodeColumns
from pyscheduler.core.state.placed import PlacedPods
from pyscheduler.core.state.shared_node_fields import changed_fields
from tests.properties.profiles import assert_caught, quick
from tests.properties.state_snapshot import assert_consistent, of_cluster
from tests.properties.state_steps import ALL_STEPS, POD_STEPS, StateModel, Step, steps

Plant = Callable[[pytest.MonkeyPatch], None]


def check_rebuilt(script: list[Step]) -> None:
    model = StateModel()
    for step in script:
        model.do(step)
    incremental, rebuilt = of_cluster(model.state), of_cluster(model.rebuilt())
    for snapshot in (incremental, rebuilt):
        # Compare by content: the rebuilt state holds equal pods, not identical ones.
        snapshot["pods"] = {
            name: {p.uid: (p.signature, p.deleting) for p in on.values()} for name, on in snapshot["pods"].items()
        }
    assert incremental == rebuilt
    assert_consistent(model.state)


@quick(150)
@given(steps(*ALL_STEPS))
def test_incremental_state_equals_rebuilt_one(script: list[Step]) -> None:
    check_rebuilt(script)


_PODS = steps(*POD_STEPS, longest=6)
_INNERMOST: st.SearchStrategy[Any] = st.tuples(_PODS, st.just([]), _PODS)
_DRY_RUNS = st.recursive(_INNERMOST, lambda inner: st.tuples(_PODS, st.lists(inner, max_size=2), _PODS), max_leaves=4)
_STORIES = st.tuples(steps(*ALL_STEPS, longest=20), _DRY_RUNS, st.booleans())


def check_restored(story: tuple[list[Step], Any, bool]) -> None:
    script, nested, raises = story
    model = StateModel()
    for step in script:
        model.do(step)
    before, order = of_cluster(model.state), _order(model.state)
    _run_nested(model, nested, raises)
    assert of_cluster(model.state) == before
    assert _order(model.state) == order
    assert_consistent(model.state)


def _run_nested(model: StateModel, nested: Any, raises: bool) -> None:
    """Run the steps in a dry run with nested dry runs; optionally raise at the end."""
    first, inner, last = nested
    pods = dict(model.pods)
    try:
        with model.state.dry_run():
            for step in first:
                model.do(step)
            between = of_cluster(model.state), _order(model.state)
            for nested_steps in inner:
                _run_nested(model, nested_steps, raises)
                assert (of_cluster(model.state), _order(model.state)) == between
            for step in last:
                model.do(step)
            if raises:
                raise ZeroDivisionError
    except ZeroDivisionError:
        assert raises
    model.pods = pods


def _order(state: ClusterState) -> dict[str, list[str]]:
    return {node.name: list(node.pods) for node in state.rows}


@quick(120)
@given(_STORIES)
def test_dry_run_restores_the_state(story: tuple[list[Step], Any, bool]) -> None:
    check_restored(story)


# -- planted bugs --------------------------------------------------------------------------------------------------


def _skip_write_of_moved_row(patch: pytest.MonkeyPatch) -> None:
    write = ClusterState._write_object

    def patched(self: ClusterState, node: NodeRow, changed: int) -> None:
        if node.row == len(self.rows) - 1 or self._by_name.get(node.name) is not node or node.row == 0:
            write(self, node, changed)

    patch.setattr(ClusterState, "_write_object", patched)


def _miss_changes_of(field: NodeFields) -> Plant:
    """Return a planted bug: changes of one part of node objects are ignored."""
    return lambda patch: patch.setattr(
        "pyscheduler.core.state.cluster.changed_fields",
        lambda before, now: changed_fields(before, now) & ~field.value,
    )


def _keep_old_resources(patch: pytest.MonkeyPatch) -> None:
    def write_allocatable(self: NodeColumns, row: int, amounts: dict[str, int]) -> None:
        for resource, amount in amounts.items():
            self._column(self.allocatable, resource).set(row, amount)

    patch.setattr(NodeColumns, "write_allocatable", write_allocatable)


def _keep_used_ports(patch: pytest.MonkeyPatch) -> None:
    count = NodeRow._count_ports
    patch.setattr(NodeRow, "_count_ports", lambda self, ports, sign: count(self, ports, sign) if sign > 0 else None)


def _keep_image_counts(patch: pytest.MonkeyPatch) -> None:
    count = ClusterState._count_images
    patch.setattr(ClusterState, "_count_images", lambda self, _, images: count(self, {}, images))


def _forget_pods_of_deleted_nodes(patch: pytest.MonkeyPatch) -> None:
    remove_node = ClusterState.remove_node

    def remove(self: ClusterState, name: str) -> Any:
        before = remove_node(self, name)
        self._missing_nodes.clear()
        return before

    patch.setattr(ClusterState, "remove_node", remove)


def _ignore_changed_signature(patch: pytest.MonkeyPatch) -> None:
    def replace(self: ClusterState, pod: Any) -> None:
        self._node_of[pod.uid].pods[pod.uid] = pod

    patch.setattr(ClusterState, "replace", replace)


def _keep_counts_of_moved_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PlacedPods, "moved", lambda *_: None)


def _skip_pods_before_their_node(patch: pytest.MonkeyPatch) -> None:
    """Do not count pods that were added before their node."""
    changed = PlacedPods.changed

    def patched(self: PlacedPods, node: NodeRow, pod: Any, sign: int) -> None:
        if sign < 0 or len(node.pods) < 2:
            changed(self, node, pod, sign)

    patch.setattr(PlacedPods, "changed", patched)


def _ignore_deletions_in_counts(patch: pytest.MonkeyPatch) -> None:
    replace = ClusterState.replace

    def patched(self: ClusterState, pod: Any) -> None:
        placed, self.placed = self.placed, PlacedPods()
        replace(self, pod)
        self.placed = placed

    patch.setattr(ClusterState, "replace", patched)


@pytest.mark.parametrize(
    "plant",
    [
        _keep_counts_of_moved_rows,
        _skip_pods_before_their_node,
        _ignore_deletions_in_counts,
        _skip_write_of_moved_row,
        _miss_changes_of(NodeFields.LABELS),
        _miss_changes_of(NodeFields.SPEC),
        _miss_changes_of(NodeFields.ALLOCATABLE),
        _keep_old_resources,
        _keep_used_ports,
        _keep_image_counts,
        _forget_pods_of_deleted_nodes,
        _ignore_changed_signature,
    ],
)
def test_comparison_with_rebuilt_state_catches_planted_bug(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert_caught(check_rebuilt, steps(*ALL_STEPS), AssertionError, KeyError, IndexError)


def _revert_oldest_first(patch: pytest.MonkeyPatch) -> None:
    def roll_back(self: ClusterState, begin: int, _: int) -> bool:
        steps = self._undo[begin:]
        del self._undo[begin:]
        for step in steps:
            self._revert(*step)
        return False

    patch.setattr(ClusterState, "_roll_back", roll_back)


def _keep_removals(patch: pytest.MonkeyPatch) -> None:
    revert = ClusterState._revert
    patch.setattr(ClusterState, "_revert", lambda self, *step: revert(self, *step) if step[2] is None else None)


def _lose_pod_order(patch: pytest.MonkeyPatch) -> None:
    revert = ClusterState._revert
    patch.setattr(
        ClusterState, "_revert", lambda self, pod, name, behind: revert(self, pod, name, None if behind is None else [])
    )


def _keep_dry_run_after_error(patch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def leaking_dry_run(self: ClusterState) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(dry_run(self))
            try:
                yield
            except ZeroDivisionError:
                never_closed.append(stack.pop_all())
                raise

    dry_run: Callable[[ClusterState], AbstractContextManager[object]] = ClusterState.dry_run
    never_closed: list[ExitStack] = []
    patch.setattr(ClusterState, "dry_run", leaking_dry_run)


@pytest.mark.parametrize("plant", [_revert_oldest_first, _keep_removals, _lose_pod_order, _keep_dry_run_after_error])
def test_comparison_around_dry_run_catches_planted_bug(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert_caught(check_restored, _STORIES, AssertionError, KeyError)
