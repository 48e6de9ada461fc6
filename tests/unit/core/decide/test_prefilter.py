"""PreFilter's rules, as kube-scheduler 1.36 has them: who ends the point, who only narrows it, what users are told."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import (
    SKIP,
    Code,
    Cycle,
    Diagnosis,
    NodeNames,
    NodeTable,
    Pod,
    PreFilterPlugin,
    Reads,
    Rejection,
    StateKey,
    Status,
)
from pyscheduler.core.decide.decider import Decider
from pyscheduler.core.decide.plugin_result_cache import PluginResultCache
from pyscheduler.core.decide.prefilter import PreFilterResult, run_pre_filter
from pyscheduler.core.framework.handle import CoreHandle
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.queue.nominator import Nominator
from pyscheduler.core.state import ClusterState
from pyscheduler.intree import PrioritySort
from pyscheduler.testing import node, pod

SEEN: StateKey[str] = StateKey("seen")


class Says(PreFilterPlugin):
    """Gives one answer, and counts how often it was asked."""

    reads = Reads.EVERYTHING

    def __init__(self, name: str, answer: Any) -> None:
        super().__init__(None, CoreHandle())
        self.name = name  # type: ignore[misc]
        self.answer = answer
        self.asked = 0

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Any:
        self.asked += 1
        cycle[SEEN] = self.name
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Silent(Says):
    """Leaves nothing in the cycle."""

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Any:
        return self.answer


def names(*some: str) -> NodeNames:
    return NodeNames(frozenset(some))


def cluster() -> ClusterState:
    state = ClusterState()
    for name in ("n1", "n2", "n3"):
        state.set_node(node(name).build())
    return state


def run(*answers: Any) -> tuple[PreFilterResult, list[int]]:
    """What came of it, and how often each plugin (A, B, C …) was asked."""
    plugins = tuple(Says(chr(ord("A") + i), answer) for i, answer in enumerate(answers))
    cycle = Cycle(0.0, "default-scheduler", "uid")
    result = run_pre_filter(plugins, cycle, pod().build(), cluster().table(), PluginResultCache())
    return result, [plugin.asked for plugin in plugins]


NO, NEVER, LATER = Rejection("no"), Rejection("never", resolvable=False), Rejection("later")


@pytest.mark.parametrize(
    ("answers", "rejection", "asked"),
    [
        pytest.param((None, NEVER, None), Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "B", ("never",)), [1, 1, 0],
                     id="an unresolvable no ends the point"),
        pytest.param((NO, None), Status(Code.UNSCHEDULABLE, "A", ("no",)), [1, 1],
                     id="a resolvable no waits for the others"),
        pytest.param((NO, LATER), Status(Code.UNSCHEDULABLE, "B", ("later",)), [1, 1],
                     id="of two resolvable ones the last counts"),
        pytest.param((NO, NEVER), Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "B", ("never",)), [1, 1],
                     id="an unresolvable no beats an earlier one"),
    ],
)  # fmt: skip
def test_who_ends_the_point(answers: tuple[Any, ...], rejection: Status, asked: list[int]) -> None:
    result, times = run(*answers)
    assert (result.rejection, times) == (rejection, asked)


@pytest.mark.parametrize(
    ("answers", "left", "reason"),
    [
        ((names("n1", "n2"), None, names("n2", "n3")), {"n2"}, None),
        ((names(), None), set(), "node(s) didn't satisfy plugin A"),
        ((names("n1"), names("n2")), set(), "node(s) didn't satisfy plugin(s) [A B] simultaneously"),
        ((names("n1"), SKIP, names("n2")), set(), "node(s) didn't satisfy plugin(s) [A C] simultaneously"),
    ],
)
def test_node_names_are_intersected(answers: tuple[Any, ...], left: set[str], reason: str | None) -> None:
    result, _ = run(*answers)
    assert set(result.names or ()) == left
    assert (result.rejection.message if result.rejection else None) == reason


def test_once_nothing_is_left_nobody_else_is_asked() -> None:
    assert run(names("n1"), names("n2"), None)[1] == [1, 1, 0]


def test_a_plugin_that_skips_is_left_out_of_filtering() -> None:
    assert run(SKIP, None)[0].skipped == {"A"}


def test_nodes_outside_are_told_who_narrowed_the_choice() -> None:
    result, _ = run(names("n1"), names("n1", "n2"))
    message = "node(s) didn't satisfy plugin(s) [A B]"
    assert result.outside_status(None) == Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "", (message,))


def test_a_plugin_that_raises_is_named() -> None:
    with pytest.raises(PluginFailed, match='running PreFilter plugin "A": RuntimeError: out of order'):
        run(RuntimeError("out of order"))


def test_kept_answers_and_state_serve_the_next_pod_of_the_shape() -> None:
    plugin, kept = Says("A", SKIP), PluginResultCache()
    plugin.reads = Reads.OWN_NODE
    for _ in range(2):
        cycle = Cycle(0.0, "default-scheduler", "uid")
        result = run_pre_filter((plugin,), cycle, pod().build(), cluster().table(), kept)
        assert (set(result.skipped), cycle[SEEN]) == ({"A"}, "A")
    assert plugin.asked == 1


def test_kept_state_is_not_there_when_an_earlier_plugin_ends_the_point() -> None:
    moody, keeper, kept = Silent("A", None), Says("B", SKIP), PluginResultCache()
    keeper.reads = Reads.OWN_NODE
    for answer in (None, NEVER):
        moody.answer, cycle = answer, Cycle(0.0, "default-scheduler", "uid")
        run_pre_filter((moody, keeper), cycle, pod().build(), cluster().table(), kept)
        assert (SEEN in cycle) == (answer is None)


@pytest.mark.parametrize(
    ("answers", "waits_for"),
    [
        pytest.param((names("n1"), names("n2")), {"A", "B"}, id="those that narrowed it down to nothing"),
        pytest.param((names("n1"), NO), {"A", "B"}, id="who said no, and who narrowed it"),
        pytest.param((names("n1"), NEVER), {"B"}, id="only who ended the point"),
    ],
)
def test_a_rejected_pod_waits_for_the_events_of(answers: tuple[Any, ...], waits_for: set[str]) -> None:
    plugins = tuple(Says(chr(ord("A") + i), answer) for i, answer in enumerate(answers))
    sort = PrioritySort(PrioritySort.Args(), CoreHandle())
    profile = Profile("default-scheduler", sort, pre_filter=plugins)
    decided = Decider(profile, cluster(), Nominator(), Instrument()).decide(Cycle(0.0, "x", "uid"), pod().build())
    assert isinstance(decided, Diagnosis)
    assert decided.unschedulable_plugins == waits_for
