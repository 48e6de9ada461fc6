"""Rules of PreFilter in kube-scheduler: which results end the point, which only narrow it, and the messages."""

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
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.queue.nominator import Nominator
from pyscheduler.core.result_cache.plugin_result_cache import PluginResultCache
from pyscheduler.core.scheduling.extension_points import PreFilterResult, run_pre_filter_plugins
from pyscheduler.core.scheduling.profile_runtime import ProfileRuntime
from pyscheduler.core.scheduling.schedule_pod import schedule_pod
from pyscheduler.core.state import ClusterState
from pyscheduler.intree import PrioritySort
from pyscheduler.testing import node, pod

WRITER: StateKey[str] = StateKey("seen")


class Fixed(PreFilterPlugin):
    """Return a fixed result and count the calls."""

    reads = Reads.EVERYTHING

    def __init__(self, name: str, answer: Any) -> None:
        super().__init__(None, empty_handle())
        self.name = name  # type: ignore[misc]
        self.answer = answer
        self.calls = 0

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Any:
        self.calls += 1
        cycle[WRITER] = self.name
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Stateless(Fixed):
    """Return a fixed result without writing to the cycle."""

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
    """Return the result and the number of calls of each plugin (A, B, C …)."""
    plugins = tuple(Fixed(chr(ord("A") + i), answer) for i, answer in enumerate(answers))
    cycle = Cycle(0.0, "default-scheduler", "uid")
    result = run_pre_filter_plugins(plugins, cycle, pod().build(), cluster().table, PluginResultCache())
    return result, [plugin.calls for plugin in plugins]


RESOLVABLE, UNRESOLVABLE, LATER = Rejection("no"), Rejection("never", resolvable=False), Rejection("later")


@pytest.mark.parametrize(
    ("answers", "rejection", "calls"),
    [
        pytest.param((None, UNRESOLVABLE, None), Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "B", ("never",)),
                     [1, 1, 0], id="unresolvable rejection ends the point"),
        pytest.param((RESOLVABLE, None), Status(Code.UNSCHEDULABLE, "A", ("no",)), [1, 1],
                     id="resolvable rejection does not end the point"),
        pytest.param((RESOLVABLE, LATER), Status(Code.UNSCHEDULABLE, "B", ("later",)), [1, 1],
                     id="last resolvable rejection counts"),
        pytest.param((RESOLVABLE, UNRESOLVABLE), Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "B", ("never",)), [1, 1],
                     id="unresolvable rejection replaces an earlier one"),
    ],
)  # fmt: skip
def test_unresolvable_rejection_ends_the_point(answers: tuple[Any, ...], rejection: Status, calls: list[int]) -> None:
    result, counts = run(*answers)
    assert (result.rejection, counts) == (rejection, calls)


@pytest.mark.parametrize(
    ("answers", "remaining", "reason"),
    [
        ((names("n1", "n2"), None, names("n2", "n3")), {"n2"}, None),
        ((names(), None), set(), "node(s) didn't satisfy plugin A"),
        ((names("n1"), names("n2")), set(), "node(s) didn't satisfy plugin(s) [A B] simultaneously"),
        ((names("n1"), SKIP, names("n2")), set(), "node(s) didn't satisfy plugin(s) [A C] simultaneously"),
    ],
)
def test_node_names_are_intersected(answers: tuple[Any, ...], remaining: set[str], reason: str | None) -> None:
    result, _ = run(*answers)
    assert set(result.names or ()) == remaining
    assert (result.rejection.message if result.rejection else None) == reason


def test_empty_intersection_ends_the_point() -> None:
    assert run(names("n1"), names("n2"), None)[1] == [1, 1, 0]


def test_skipping_plugin_is_excluded_from_filter() -> None:
    assert run(SKIP, None)[0].skipped == {"A"}


def test_status_of_excluded_nodes_names_the_plugins() -> None:
    result, _ = run(names("n1"), names("n1", "n2"))
    message = "node(s) didn't satisfy plugin(s) [A B]"
    assert result.absent_nodes_status(None) == Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "", (message,))


def test_exception_names_the_plugin() -> None:
    with pytest.raises(PluginFailed, match='running PreFilter plugin "A": RuntimeError: out of order'):
        run(RuntimeError("out of order"))


def test_cached_result_and_state_are_reused_for_same_signature() -> None:
    plugin, results = Fixed("A", SKIP), PluginResultCache()
    plugin.reads = Reads.OWN_NODE
    for _ in range(2):
        cycle = Cycle(0.0, "default-scheduler", "uid")
        result = run_pre_filter_plugins((plugin,), cycle, pod().build(), cluster().table, results)
        assert (set(result.skipped), cycle[WRITER]) == ({"A"}, "A")
    assert plugin.calls == 1


def test_cached_state_is_not_replayed_after_the_point_ended() -> None:
    changing, cached, results = Stateless("A", None), Fixed("B", SKIP), PluginResultCache()
    cached.reads = Reads.OWN_NODE
    for answer in (None, UNRESOLVABLE):
        changing.answer, cycle = answer, Cycle(0.0, "default-scheduler", "uid")
        run_pre_filter_plugins((changing, cached), cycle, pod().build(), cluster().table, results)
        assert (WRITER in cycle) == (answer is None)


@pytest.mark.parametrize(
    ("answers", "plugins_to_wait_for"),
    [
        pytest.param((names("n1"), names("n2")), {"A", "B"}, id="plugins with disjoint node names"),
        pytest.param((names("n1"), RESOLVABLE), {"A", "B"}, id="rejecting plugin and plugin with node names"),
        pytest.param((names("n1"), UNRESOLVABLE), {"B"}, id="only the plugin that ended the point"),
    ],
)
def test_rejected_pod_waits_for_events_of_plugins(answers: tuple[Any, ...], plugins_to_wait_for: set[str]) -> None:
    plugins = tuple(Fixed(chr(ord("A") + i), answer) for i, answer in enumerate(answers))
    sort = PrioritySort(PrioritySort.Args(), empty_handle())
    profile = Profile("default-scheduler", sort, pre_filter=plugins)
    runtime = ProfileRuntime.of(profile, cluster(), Nominator(), Instrument())
    result = schedule_pod(runtime, Cycle(0.0, "x", "uid"), pod().build())
    assert isinstance(result, Diagnosis)
    assert result.unschedulable_plugins == plugins_to_wait_for
