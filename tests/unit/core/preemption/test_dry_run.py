"""Dry runs: which plugins run, how their state follows pods, and what is restored afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from pyscheduler.api import (
    Code,
    Cycle,
    DryRun,
    FilterPlugin,
    NodeInfo,
    NodeTable,
    Plugin,
    Pod,
    PreFilterPlugin,
    Reads,
    Rejection,
    StateKey,
    Status,
    StatusError,
)
from pyscheduler.api.plugin import NoArgs
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.preemption.dry_run import DryRunner
from pyscheduler.core.queue.nominator import Nominator
from pyscheduler.core.state import ClusterState
from pyscheduler.core.state.without_lower_priority import TableWithoutLowerPriority
from pyscheduler.intree import PrioritySort
from pyscheduler.testing import node, pod

from .test_reprieve import potential_victims

_POD_COUNT: StateKey[int] = StateKey("count")
HANDLE = empty_handle()


class MaxTwoPods(PreFilterPlugin, FilterPlugin):
    """Allow two pods on a node, counted through `add_pod` and `remove_pod`."""

    name = "MaxTwoPods"
    reads = Reads.DOMAINS

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> None:
        cycle[_POD_COUNT] = 2

    def add_pod(self, cycle: Cycle, pod: Pod, added: Pod, node: NodeInfo) -> None:
        assert added.uid in node.pods
        cycle[_POD_COUNT] += 1

    def remove_pod(self, cycle: Cycle, pod: Pod, removed: Pod, node: NodeInfo) -> None:
        assert removed.uid not in node.pods
        cycle[_POD_COUNT] -= 1

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        return Rejection(f"{cycle[_POD_COUNT]} pods are too many") if cycle[_POD_COUNT] >= 2 else None


class NodeOnly(FilterPlugin):
    """Read the node object only and count the calls."""

    name = "NodeOnly"
    reads = Reads.OWN_NODE

    def __init__(self) -> None:
        super().__init__(NoArgs(), HANDLE)
        self.calls = 0

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        self.calls += 1


class Raises(FilterPlugin):
    """Raise a fixed exception."""

    name = "Raises"

    def __init__(self, error: Exception) -> None:
        super().__init__(NoArgs(), HANDLE)
        self._error = error

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        raise self._error


@contextmanager
def dry_run(*plugins: Plugin, skipped: str = "", nominated: Pod | None = None) -> Iterator[tuple[DryRun, Cycle]]:
    """Open a dry run on node n1, which runs the pods a and b."""
    state, nominator = ClusterState(), Nominator()
    state.set_node(node("n1").build())
    for name in ("a", "b"):
        state.add_pod(pod(name).on("n1").build())
    if nominated is not None:
        nominator.add(nominated, "n1")
    pre_filters = tuple(p for p in plugins if isinstance(p, PreFilterPlugin))
    filters = tuple(p for p in plugins if isinstance(p, FilterPlugin))
    profile = Profile("p", PrioritySort(NoArgs(), HANDLE), pre_filter=pre_filters, filter=filters)
    cycle, subject = Cycle(0.0, "p", "new"), pod("new").build()
    for plugin in pre_filters:
        plugin.pre_filter(cycle, subject, state.table())
    cycle.skipped = frozenset({skipped})
    with DryRunner({"p": profile}, state, nominator).open(cycle, subject, "n1") as run:
        yield run, cycle
    row = state.info("n1")
    assert row is not None
    assert list(row.pods) == ["a", "b"]


A = pod("a").on("n1").build()
MAX_TWO_PODS = MaxTwoPods(NoArgs(), HANDLE)


def test_plugins_see_pod_changes_and_state_is_restored() -> None:
    with dry_run(MAX_TWO_PODS) as (run, cycle):
        assert run.run_filters() == Status(Code.UNSCHEDULABLE, "MaxTwoPods", ("2 pods are too many",))
        run.remove(A)
        assert run.run_filters() is None
        run.add(A)
        assert run.run_filters() is not None
        run.remove(A)
    assert cycle[_POD_COUNT] == 2


def test_skipped_plugins_are_not_called() -> None:
    with dry_run(MAX_TWO_PODS, skipped="MaxTwoPods") as (run, cycle):
        run.remove(A)
        assert cycle[_POD_COUNT] == 2
        assert run.run_filters() is None


def test_nominated_pods_count_unless_of_lower_priority() -> None:
    for priority, fits in ((-1, True), (0, False)):
        with dry_run(MAX_TWO_PODS, nominated=pod("nominated").priority(priority).build()) as (run, cycle):
            run.remove(A)
            assert (run.run_filters() is None) is fits
            assert cycle[_POD_COUNT] == 1, "the state is restored after the nominated pods"


def test_node_only_filter_runs_until_it_accepts() -> None:
    node_only = NodeOnly()
    with dry_run(node_only, MAX_TWO_PODS) as (run, _):
        run.run_filters()
        run.remove(A)
        run.run_filters()
        assert node_only.calls == 2
        run.add(A)
        run.run_filters()
        assert node_only.calls == 2


def test_error_status_is_returned_and_exception_is_raised() -> None:
    with dry_run(Raises(StatusError("no such class"))) as (run, _):
        status = run.run_filters()
        assert status is not None
        assert (status.code, status.reasons) == (Code.ERROR, ('running "Raises" filter plugin: no such class',))
    with pytest.raises(PluginFailed, match="oh"), dry_run(Raises(ValueError("oh"))) as (run, _):
        run.run_filters()


def test_unknown_node_raises_key_error() -> None:
    runner = DryRunner({}, ClusterState(), Nominator())
    with pytest.raises(KeyError, match="n9"), runner.open(Cycle(0.0, "p", "u"), pod().build(), "n9"):
        pass


class ErrorOnN2(FilterPlugin):
    """Return an error status for node n2."""

    name = "ErrorOnN2"
    reads_in_dry_run = Reads.OWN_NODE

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        if node.name == "n2":
            raise StatusError("no such class")


class RejectsAll(FilterPlugin):
    """Reject every node."""

    name = "RejectsAll"
    reads = Reads.OWN_NODE

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection:
        return Rejection("no")


def test_filter_with_error_status_leaves_nodes_to_dry_runs() -> None:
    state, preemptor = ClusterState(), pod("new").priority(1).build()
    for name in ("n1", "n2"):
        state.set_node(node(name).build())
        state.add_pod(pod(f"on-{name}").on(name).build())
    profile = Profile(
        "p", PrioritySort(NoArgs(), HANDLE), filter=(ErrorOnN2(NoArgs(), HANDLE), RejectsAll(NoArgs(), HANDLE))
    )
    runner, cycle = DryRunner({"p": profile}, state, Nominator()), Cycle(0.0, "p", "new")
    statuses, undecided = runner.filter_without_lower_priority(cycle, preemptor, np.arange(2))
    assert not statuses.codes.any()
    assert undecided.all()


class OnePod(FilterPlugin):
    """Allow one pod on a node."""

    name = "OnePod"
    reads = Reads.OWN_NODE_AND_PODS

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        return Rejection(f"next to {', '.join(node.pods)}") if node.pods else None


def test_status_is_that_with_nominated_pods_and_otherwise_that_without() -> None:
    state, nominator, preemptor = ClusterState(), Nominator(), pod("new").priority(1).build()
    for name, priority in (("n1", 0), ("n2", 1), ("n3", 0), ("n4", 0)):
        state.set_node(node(name).build())
        state.add_pod(pod(f"on-{name}").on(name).priority(priority).build())
    nominator.add(pod("first").priority(1).build(), "n1")
    nominator.add(pod("second").priority(1).build(), "n2")
    nominator.add(pod("lower").build(), "n3")
    profile = Profile("p", PrioritySort(NoArgs(), HANDLE), filter=(OnePod(NoArgs(), HANDLE),))
    runner, cycle = DryRunner({"p": profile}, state, nominator), Cycle(0.0, "p", "new")
    statuses, undecided = runner.filter_without_lower_priority(cycle, preemptor, np.array([3, 2, 1, 0]))
    reasons = [rejection and rejection.reasons for rejection in map(statuses.at, range(4))]
    assert reasons == [None, None, ("next to on-n2, second",), ("next to first",)]
    assert not undecided.any()


class ErrorIfNextToB(FilterPlugin):
    """Return an error status for a node with a pod b."""

    name = "ErrorIfNextToB"
    reads_in_dry_run = Reads.OWN_NODE_AND_PODS

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        if "b" in node.pods:
            raise StatusError("no such class")


def test_error_status_in_a_reprieve_leaves_nodes_to_dry_runs() -> None:
    state, preemptor = ClusterState(), pod("new").priority(1).build()
    state.set_node(node("n1").build())
    for name in "ab":
        state.add_pod(pod(name).on("n1").build())
    profile = Profile("p", PrioritySort(NoArgs(), HANDLE), filter=(ErrorIfNextToB(NoArgs(), HANDLE),))
    runner, cycle = DryRunner({"p": profile}, state, Nominator()), Cycle(0.0, "p", "new")
    statuses, undecided = runner.filter_without_lower_priority(cycle, preemptor, np.arange(1))
    assert not statuses.codes.any()
    assert not undecided.any()
    victims = potential_victims([0], [list(state.rows[0].pods.values())])
    assert runner.reprieve_pods(cycle, preemptor, victims).needs_dry_run.all()


NODE_ONLY_MEMBERS = {
    "label_keys",
    "allocatable",
    "allowed_pods",
    "has_image",
    "by_taints",
    "image_names_version",
    "generations",
    "image_size",
    "matches_requirement",
    "matches",
    "matches_term",
    "named",
    "positions",
    "nodes_with_image",
    "topology",
    "total",
    "unschedulable",
    "version",
}
"""Members of NodeTable that do not depend on which pods are on the node."""


def test_reduced_table_overrides_every_pod_related_member() -> None:
    members = {name for name, value in vars(NodeTable).items() if callable(value) or isinstance(value, property)}
    public = {name for name in members if not name.startswith("_")} | {"__iter__"}
    assert public - NODE_ONLY_MEMBERS <= set(vars(TableWithoutLowerPriority))
