"""Stories of plugins that raise what ends a process, or return what means nothing: they cost their pods one backoff."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pyscheduler.api import SKIP, NodeNames, Rejection, Wait
from pyscheduler.core.instrument import Instrument
from pyscheduler.testing import Harness, node, pod
from tests.scenarios.fakes import MisbehavingPlugin

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint: {enabled: [{name: "tests.scenarios.fakes:MisbehavingPlugin"}]}
    bind: {enabled: [{name: MisbehavingPlugin}, {name: DefaultBinder}], disabled: [{name: "*"}]}
"""
METHODS = {
    "pre_filter": "PreFilter",
    "filter": "Filter",
    "post_filter": "PostFilter",
    "pre_score": "PreScore",
    "score": "Score",
    "normalize": "NormalizeScore",
    "reserve": "Reserve",
    "permit": "Permit",
    "pre_bind": "PreBind",
    "bind": "Bind",
}
"""Methods with the extension point that is counted; if one fails, the pod backs off."""
CARRY_ON = {"unreserve": "Unreserve", "pre_bind_pre_flight": "PreBindPreFlight", "post_bind": "PostBind"}
"""Methods with the extension point that is counted; if one fails, the cycle continues."""
ENDS_A_PROCESS = [
    KeyboardInterrupt(),
    SystemExit(3),
    GeneratorExit(),
    asyncio.CancelledError(),
    BaseException("of no kind"),
    StopIteration(),
    MemoryError(),
    RecursionError(),
    KeyError("x"),
]


class Counting(Instrument):
    def __init__(self) -> None:
        self.failures: list[tuple[str, str, BaseException]] = []

    def plugin_failed(self, plugin: str, point: str, error: BaseException) -> None:
        self.failures.append((plugin, point, error))

    @property
    def counted(self) -> set[tuple[str, str]]:
        return {(plugin, point) for plugin, point, _ in self.failures}


@pytest.fixture(params=[2, 40], ids=["few nodes", "many nodes"])
def cluster(request: pytest.FixtureRequest) -> Iterator[tuple[Harness, Counting]]:
    """Few nodes get the plain form of plugins, many the NumPy form."""
    counting = Counting()
    world = Harness(CONFIG, instrument=counting)
    world.add(*(node(f"n{i}") for i in range(request.param)))
    yield world, counting
    MisbehavingPlugin.acts.clear()


Cluster = tuple[Harness, Counting]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("error", ENDS_A_PROCESS, ids=lambda error: type(error).__name__)
def test_whatever_a_plugin_raises_costs_its_pod_one_backoff(
    cluster: Cluster, method: str, error: BaseException
) -> None:
    world, counting = cluster
    MisbehavingPlugin.acts[:] = [error]
    world.add(pod("bad").label("at", method), pod("good"))
    world.run()
    assert set(world.assignments) == {"good"}
    assert counting.counted == {("MisbehavingPlugin", METHODS[method])}
    assert type(error).__name__ in world.pending_message("bad") or isinstance(error, StopIteration)
    MisbehavingPlugin.acts.clear()
    if method != "post_filter":  # that one goes on to find no room
        world.advance(2)
        assert set(world.assignments) == {"good", "bad"}


@pytest.mark.parametrize("method", CARRY_ON)
@pytest.mark.parametrize("error", ENDS_A_PROCESS, ids=lambda error: type(error).__name__)
def test_where_nothing_can_be_undone_the_failure_is_only_counted(
    cluster: Cluster, method: str, error: BaseException
) -> None:
    world, counting = cluster
    MisbehavingPlugin.acts[:] = [error]
    world.add(pod("bad").label("at", method), pod("good"))
    world.run()
    assert set(world.assignments) == ({"good"} if method == "unreserve" else {"good", "bad"})
    assert counting.counted == {("MisbehavingPlugin", CARRY_ON[method])}


@pytest.mark.parametrize("error", ENDS_A_PROCESS, ids=lambda error: type(error).__name__)
def test_pod_is_held_back_when_pre_enqueue_raises(cluster: Cluster, error: BaseException) -> None:
    world, counting = cluster
    MisbehavingPlugin.acts[:] = [error]
    world.add(pod("bad").label("at", "pre_enqueue"), pod("good"))
    world.run()
    assert set(world.assignments) == {"good"}
    assert counting.counted == {("MisbehavingPlugin", "PreEnqueue")}


@pytest.mark.parametrize("error", [*ENDS_A_PROCESS, True], ids=lambda error: type(error).__name__)
def test_pod_is_tried_again_when_a_hint_raises_or_returns_no_hint(error: Any) -> None:
    counting = Counting()
    world = Harness(CONFIG, instrument=counting)
    world.add(node("n1"))
    MisbehavingPlugin.acts[:] = [Rejection("no")]
    world.add(pod("bad").label("at", "filter"))
    world.run()
    MisbehavingPlugin.acts[:] = [error]
    world.add(pod("bad").label("at", "hint"))
    world.add(node("n2"))
    world.advance(3)
    MisbehavingPlugin.acts.clear()
    assert set(world.assignments) == {"bad"}


@pytest.mark.parametrize("method", ["filter", "score", "permit", "pre_bind"])
def test_real_ctrl_c_still_stops_the_process(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    world = Harness(CONFIG)
    world.add(node("n1"), node("n2"))
    before = MisbehavingPlugin._act

    def interrupted(self: MisbehavingPlugin, pod: Any, at: str, otherwise: Any = None) -> Any:
        if at == method:
            signal.raise_signal(signal.SIGINT)
        return before(self, pod, at, otherwise)

    monkeypatch.setattr(MisbehavingPlugin, "_act", interrupted)
    world.add(pod("a"))
    # Tests that run in the background inherit a SIGINT that is ignored.
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            world.run()
    finally:
        signal.signal(signal.SIGINT, previous)


def coroutine() -> Any:
    async def answer() -> None:
        return None

    return answer()


WRONG = [
    ("pre_filter", False, "pre_filter returned bool, expected None, Rejection, NodeNames or SKIP"),
    ("filter", False, "filter returned bool, expected None or Rejection"),
    ("filter", True, "filter returned bool, expected None or Rejection"),
    ("filter", "node is bad", "filter returned str, expected None or Rejection"),
    ("filter", ["unhashable"], "filter returned list, expected None or Rejection"),
    ("filter", coroutine, "filter returned a coroutine, expected None or Rejection"),
    ("post_filter", False, "post_filter returned bool, expected Nominate, Rejection or ClearNomination"),
    ("pre_score", NodeNames(frozenset()), "pre_score returned NodeNames, expected None or SKIP"),
    ("score", 0.7, "score returned 0.7 (float), expected a whole number"),
    ("score", float("nan"), "score returned nan (float), expected a whole number"),
    ("score", float("inf"), "score returned inf (float), expected a whole number"),
    ("score", True, "score returned bool, expected a whole number"),
    ("score", None, "score returned None, expected a whole number"),
    ("score", "x", "score returned str, expected a whole number"),
    ("score", coroutine, "score returned a coroutine, expected a whole number"),
    ("normalize", [1], "normalize returned list, expected an array of int64"),
    ("normalize", np.zeros(3, np.int64), "normalize returned 3 scores, expected one for each of "),
    ("normalize", np.zeros(3), "normalize returned an array of float64, expected an array of int64"),
    ("reserve", True, "reserve returned bool, expected None or Rejection"),
    ("permit", True, "permit returned bool, expected None, Rejection or Wait"),
    ("pre_bind", SKIP, "pre_bind returned Skip, expected None or Rejection"),
    ("bind", True, "bind returned bool, expected None, Rejection or SKIP"),
    ("bind", None, "bind returned None, expected a binding made by `api.bind`, a Rejection or SKIP"),
]


@pytest.mark.parametrize(("method", "answer", "text"), WRONG)
def test_wrong_answer_is_the_plugins_failure_by_name(cluster: Cluster, method: str, answer: Any, text: str) -> None:
    world, counting = cluster
    MisbehavingPlugin.acts[:] = [answer() if answer is coroutine else answer]
    world.add(pod("bad").label("at", method), pod("good"))
    world.run()
    assert set(world.assignments) == {"good"}
    assert world.pending_message("bad").startswith(f"plugin MisbehavingPlugin: {text}")
    assert counting.counted == {("MisbehavingPlugin", METHODS[method])}


@pytest.mark.parametrize("score", [5000, -1])
def test_score_out_of_range_is_the_plugins_failure(
    cluster: Cluster, score: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, _ = cluster
    MisbehavingPlugin.acts[:] = [score]
    world.add(pod("bad").label("at", "score"), pod("good"))
    world.run()
    assert set(world.assignments) == {"good"}
    assert world.pending_message("bad") == f"plugin MisbehavingPlugin: normalize returned {score}, expected 0 to 100"


@pytest.mark.parametrize("error", ENDS_A_PROCESS, ids=lambda error: type(error).__name__)
def test_whatever_score_all_raises_costs_its_pod_one_backoff(error: BaseException) -> None:
    counting = Counting()
    world = Harness(CONFIG, instrument=counting)
    world.add(*(node(f"n{i}") for i in range(40)))
    MisbehavingPlugin.acts[:] = [error]
    world.add(pod("bad").label("at", "score_all"), pod("good"))
    world.run()
    MisbehavingPlugin.acts.clear()
    assert set(world.assignments) == {"good"}
    assert counting.counted == {("MisbehavingPlugin", "Score")}


@pytest.mark.parametrize(
    ("read", "text"),
    [
        ("objects", "licences.example.com are not watched: add the kind to the `watches` of the plugin"),
        ("version", "licences.example.com are not watched: add the kind to the `watches` of the plugin"),
        ("pods", 'pods are not indexed by the label "app": add it to the `indexes` of the plugin'),
    ],
)
def test_plugin_that_reads_what_it_has_not_declared_fails(read: str, text: str) -> None:
    world = Harness(CONFIG.replace("MisbehavingPlugin", "Undeclared").partition("    bind:")[0])
    world.add(node("n1"), pod("a").label("read", read))
    world.run()
    assert world.pending_message("a") == f'running "Undeclared" filter plugin: LookupError: {text}'


COLUMNS = [
    ([1], "score_all returned list, expected an array of int64"),
    (np.zeros(3, np.int64), "score_all returned 3 scores, expected one for each of 40 nodes"),
    (np.zeros(40), "score_all returned an array of float64, expected an array of int64"),
    (np.int64(7), "score_all returned int64, expected an array of int64"),
]


@pytest.mark.parametrize(("scores", "text"), COLUMNS)
def test_column_of_scores_that_does_not_fit_is_the_plugins_failure(scores: Any, text: str) -> None:
    counting = Counting()
    world = Harness(CONFIG, instrument=counting)
    world.add(*(node(f"n{i}") for i in range(40)))
    MisbehavingPlugin.acts[:] = [scores]
    world.add(pod("bad").label("at", "score_all"))
    world.run()
    MisbehavingPlugin.acts.clear()
    assert world.pending_message("bad") == f"plugin MisbehavingPlugin: {text}"
    assert counting.counted == {("MisbehavingPlugin", "Score")}


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Wait("30s"), "Wait: seconds must be a number, not str"),  # type: ignore[arg-type]
        (lambda: Wait(5, recheck_every="1"), "Wait: recheck_every must be a number, not str"),  # type: ignore[arg-type]
        (lambda: Wait(float("nan")), "Wait: seconds must be a number, not nan"),
        (lambda: NodeNames("n1"), "NodeNames: names must be a frozenset, not str"),  # type: ignore[arg-type]
        (lambda: Rejection(5), "Rejection: a reason must be a str, not int"),  # type: ignore[arg-type]
    ],
)
def test_answer_that_cannot_be_used_is_refused_where_it_is_made(make: Any, text: str) -> None:
    with pytest.raises(TypeError) as refused:
        make()
    assert str(refused.value) == text
