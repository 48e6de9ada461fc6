"""What-if trials: who is asked and told what, and what is left as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
from pyscheduler.core.decide.dry_run import DryRunner
from pyscheduler.core.framework.handle import CoreHandle
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.queue.nominator import Nominator
from pyscheduler.core.state import ClusterState
from pyscheduler.core.state.without_lower_priority import TableWithoutLowerPriority
from pyscheduler.intree import PrioritySort
from pyscheduler.testing import node, pod

_COUNT: StateKey[int] = StateKey("count")
HANDLE = CoreHandle()


class Crowd(PreFilterPlugin, FilterPlugin):
    """Allows two pods on a node, and counts them by what it is told."""

    name = "Crowd"
    reads = Reads.DOMAINS

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> None:
        cycle[_COUNT] = 2

    def add_pod(self, cycle: Cycle, pod: Pod, added: Pod, node: NodeInfo) -> None:
        assert added.uid in node.pods
        cycle[_COUNT] += 1

    def remove_pod(self, cycle: Cycle, pod: Pod, removed: Pod, node: NodeInfo) -> None:
        assert removed.uid not in node.pods
        cycle[_COUNT] -= 1

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        return Rejection(f"{cycle[_COUNT]} are a crowd") if cycle[_COUNT] >= 2 else None


class Fixed(FilterPlugin):
    """Looks at the node object only."""

    name = "Fixed"
    reads = Reads.OWN_NODE

    def __init__(self) -> None:
        super().__init__(NoArgs(), HANDLE)
        self.asked = 0

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        self.asked += 1


class Stumbles(FilterPlugin):
    """Raises."""

    name = "Stumbles"

    def __init__(self, error: Exception) -> None:
        super().__init__(NoArgs(), HANDLE)
        self._error = error

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        raise self._error


@contextmanager
def trial(*plugins: Plugin, skipped: str = "", promised: Pod | None = None) -> Iterator[tuple[DryRun, Cycle]]:
    """A trial on node n1, where the pods a and b run."""
    state, nominator = ClusterState(), Nominator()
    state.set_node(node("n1").build())
    for name in ("a", "b"):
        state.add_pod(pod(name).on("n1").build())
    if promised is not None:
        nominator.add(promised, "n1")
    pre_filters = tuple(p for p in plugins if isinstance(p, PreFilterPlugin))
    filters = tuple(p for p in plugins if isinstance(p, FilterPlugin))
    profile = Profile("p", PrioritySort(NoArgs(), HANDLE), pre_filter=pre_filters, filter=filters)
    cycle, subject = Cycle(0.0, "p", "new"), pod("new").build()
    for plugin in pre_filters:
        plugin.pre_filter(cycle, subject, state.table())
    cycle.skipped = frozenset({skipped})
    with DryRunner({"p": profile}, state, nominator).open(cycle, subject, "n1") as opened:
        yield opened, cycle
    row = state.info("n1")
    assert row is not None
    assert list(row.pods) == ["a", "b"]


A = pod("a").on("n1").build()
CROWD = Crowd(NoArgs(), HANDLE)


def test_plugins_are_told_of_pods_and_the_cycle_is_put_back() -> None:
    with trial(CROWD) as (opened, cycle):
        assert opened.run_filters() == Status(Code.UNSCHEDULABLE, "Crowd", ("2 are a crowd",))
        opened.remove(A)
        assert opened.run_filters() is None
        opened.add(A)
        assert opened.run_filters() is not None
        opened.remove(A)
    assert cycle[_COUNT] == 2


def test_plugins_that_left_themselves_out_are_neither_asked_nor_told() -> None:
    with trial(CROWD, skipped="Crowd") as (opened, cycle):
        opened.remove(A)
        assert cycle[_COUNT] == 2
        assert opened.run_filters() is None


def test_promised_places_count_unless_they_are_of_less_important_pods() -> None:
    for priority, fits in ((-1, True), (0, False)):
        with trial(CROWD, promised=pod("promised").priority(priority).build()) as (opened, cycle):
            opened.remove(A)
            assert (opened.run_filters() is None) is fits
            assert cycle[_COUNT] == 1, "what was asked about them is put back, too"


def test_what_depends_on_the_node_object_alone_is_asked_until_it_fits() -> None:
    fixed = Fixed()
    with trial(fixed, CROWD) as (opened, _):
        opened.run_filters()
        opened.remove(A)
        opened.run_filters()
        assert fixed.asked == 2
        opened.add(A)
        opened.run_filters()
        assert fixed.asked == 2


def test_an_answer_of_code_error_is_an_answer_and_a_bug_is_not() -> None:
    with trial(Stumbles(StatusError("no such class"))) as (opened, _):
        said = opened.run_filters()
        assert said is not None
        assert (said.code, said.reasons) == (Code.ERROR, ('running "Stumbles" filter plugin: no such class',))
    with pytest.raises(PluginFailed, match="oh"), trial(Stumbles(ValueError("oh"))) as (opened, _):
        opened.run_filters()


def test_an_unknown_node_is_an_error_of_the_caller() -> None:
    nowhere = DryRunner({}, ClusterState(), Nominator())
    with pytest.raises(KeyError, match="n9"), nowhere.open(Cycle(0.0, "p", "u"), pod().build(), "n9"):
        pass


class Moody(FilterPlugin):
    """Reads something that makes no sense of node n2."""

    name = "Moody"
    reads_in_dry_run = Reads.OWN_NODE

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        if node.name == "n2":
            raise StatusError("no such class")


class Picky(FilterPlugin):
    """Refuses every node."""

    name = "Picky"
    reads = Reads.OWN_NODE

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection:
        return Rejection("no")


def test_a_node_of_which_not_all_is_known_beforehand_takes_a_trial() -> None:
    state, preemptor = ClusterState(), pod("new").priority(1).build()
    for name in ("n1", "n2"):
        state.set_node(node(name).build())
        state.add_pod(pod(f"on-{name}").on(name).build())
    profile = Profile("p", PrioritySort(NoArgs(), HANDLE), filter=(Moody(NoArgs(), HANDLE), Picky(NoArgs(), HANDLE)))
    trials, cycle = DryRunner({"p": profile}, state, Nominator()), Cycle(0.0, "p", "new")
    assert not trials.filter_without_lower_priority(cycle, preemptor, 1).codes.any()
    orders = {row: list(known.pods.values()) for row, known in enumerate(state.rows)}
    assert trials.reprieve_pods(cycle, preemptor, {0: orders[0]}) == {}
    assert trials.reprieve_pods(cycle, preemptor, orders) == {}


ABOUT_NODES = {
    "label_keys",
    "allocatable",
    "allowed_pods",
    "by_images",
    "by_taints",
    "image_size",
    "matches_requirement",
    "matches",
    "matches_term",
    "named",
    "nodes_with_image",
    "topology",
    "total",
    "unschedulable",
    "version",
}
"""What a NodeTable tells of node objects, whatever pods are there."""


def test_a_table_without_some_pods_answers_everything_that_concerns_pods_itself() -> None:
    asked = {name for name, value in vars(NodeTable).items() if callable(value) or isinstance(value, property)}
    public = {name for name in asked if not name.startswith("_")} | {"__iter__"}
    assert public - ABOUT_NODES <= set(vars(TableWithoutLowerPriority))
