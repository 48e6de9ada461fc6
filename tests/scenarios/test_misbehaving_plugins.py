"""Plugins that raise or return wrong values cost their pod one backoff, and never stop the scheduler."""

from __future__ import annotations

import asyncio
import gc
import signal
import weakref
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest

from pyscheduler.api import (
    SKIP,
    Action,
    ClearNomination,
    ClusterEventWithHint,
    NodeNames,
    Nominate,
    NominateGroup,
    Rejection,
    Wait,
)
from pyscheduler.core.framework.failure_points import failure_points
from pyscheduler.core.instrument import Instrument
from pyscheduler.testing import Harness, node, pod
from tests.scenarios.fakes import LICENCE, MisbehavingPlugin

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
IGNORED = {"unreserve": "Unreserve", "pre_bind_pre_flight": "PreBindPreFlight", "post_bind": "PostBind"}
"""Methods with the extension point that is counted; if one fails, the cycle continues."""


class Unprintable(Exception):
    """Exception without a text: its `__str__` and `__repr__` raise, or return something else."""

    def __str__(self) -> str:
        failure, *_ = self.args
        if isinstance(failure, BaseException):
            raise failure
        return cast(str, failure)

    __repr__ = __str__


EXCEPTIONS = [
    KeyboardInterrupt(),
    SystemExit(3),
    GeneratorExit(),
    asyncio.CancelledError(),
    BaseException("unknown"),
    StopIteration(),
    MemoryError(),
    RecursionError(),
    KeyError("x"),
    Unprintable(RuntimeError("no text")),
    Unprintable(SystemExit(3)),
    Unprintable(7),
]


class Counting(Instrument):
    def __init__(self) -> None:
        self.failures: list[tuple[str, str, BaseException]] = []

    def plugin_failed(self, plugin: str, point: str, error: BaseException) -> None:
        self.failures.append((plugin, point, error))

    @property
    def counted(self) -> set[tuple[str, str]]:
        return {(plugin, point) for plugin, point, _ in self.failures}

    def check_started_at_zero(self, harness: Harness) -> None:
        """Check that the metric has a 0 before each failure: without it, Prometheus's increase() misses the first."""
        profiles = harness.machine.context.profiles.values()
        assert self.counted <= {point for profile in profiles for point in failure_points(profile)}


@pytest.fixture(params=[2, 40], ids=["few nodes", "many nodes"])
def cluster(request: pytest.FixtureRequest) -> Iterator[tuple[Harness, Counting]]:
    """Few nodes use the per-node form of plugins, many the NumPy form."""
    counting = Counting()
    harness = Harness(CONFIG, instrument=counting)
    harness.add(*(node(f"n{i}") for i in range(request.param)))
    yield harness, counting
    MisbehavingPlugin.acts.clear()
    counting.check_started_at_zero(harness)


Cluster = tuple[Harness, Counting]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("error", EXCEPTIONS, ids=lambda error: type(error).__name__)
def test_pod_backs_off_when_a_plugin_raises(cluster: Cluster, method: str, error: BaseException) -> None:
    harness, counting = cluster
    MisbehavingPlugin.acts[:] = [error]
    harness.add(pod("bad").label("at", method), pod("good"))
    harness.run()
    assert set(harness.assignments) == {"good"}
    assert counting.counted == {("MisbehavingPlugin", METHODS[method])}
    assert type(error).__name__ in harness.pending_message("bad") or isinstance(error, StopIteration)
    MisbehavingPlugin.acts.clear()
    if method != "post_filter":  # without exception, PostFilter rejects the pod
        harness.advance(2)
        assert set(harness.assignments) == {"good", "bad"}


@pytest.mark.parametrize("method", [*METHODS, *IGNORED])
def test_exception_object_that_is_raised_again_and_again_keeps_no_frames(cluster: Cluster, method: str) -> None:
    harness, counting = cluster
    error = KeyError("x")
    MisbehavingPlugin.acts[:] = [error]
    for number in range(8):
        harness.add(pod(f"p{number}").label("at", method))
        harness.run()
        harness.add(node(f"new{number}"))
        harness.advance(2)
    assert counting.failures
    assert error.__traceback__ is None


@pytest.mark.parametrize("method", IGNORED)
@pytest.mark.parametrize("error", EXCEPTIONS, ids=lambda error: type(error).__name__)
def test_cycle_continues_and_the_failure_is_counted_when_a_plugin_raises(
    cluster: Cluster, method: str, error: BaseException
) -> None:
    harness, counting = cluster
    MisbehavingPlugin.acts[:] = [error]
    harness.add(pod("bad").label("at", method), pod("good"))
    harness.run()
    assert set(harness.assignments) == ({"good"} if method == "unreserve" else {"good", "bad"})
    assert counting.counted == {("MisbehavingPlugin", IGNORED[method])}


@pytest.mark.parametrize("error", EXCEPTIONS, ids=lambda error: type(error).__name__)
def test_pod_is_gated_when_pre_enqueue_raises(cluster: Cluster, error: BaseException) -> None:
    harness, counting = cluster
    MisbehavingPlugin.acts[:] = [error]
    harness.add(pod("bad").label("at", "pre_enqueue"), pod("good"))
    harness.run()
    assert set(harness.assignments) == {"good"}
    assert counting.counted == {("MisbehavingPlugin", "PreEnqueue")}


@pytest.mark.parametrize("error", [*EXCEPTIONS, True], ids=lambda error: type(error).__name__)
def test_pod_is_requeued_when_a_hint_raises_or_returns_a_wrong_value(error: Any) -> None:
    counting = Counting()
    harness = Harness(CONFIG, instrument=counting)
    harness.add(node("n1"))
    MisbehavingPlugin.acts[:] = [Rejection("no")]
    harness.add(pod("bad").label("at", "filter"))
    harness.run()
    MisbehavingPlugin.acts[:] = [error]
    harness.add(pod("bad").label("at", "hint"))
    harness.add(node("n2"))
    harness.advance(3)
    MisbehavingPlugin.acts.clear()
    assert set(harness.assignments) == {"bad"}
    counting.check_started_at_zero(harness)


def send_sigint_in(method: str, monkeypatch: pytest.MonkeyPatch) -> weakref.ref[Harness]:
    """Send SIGINT to the process in a method of a plugin; return the harness, which may be collected."""
    harness = Harness(CONFIG)
    harness.add(node("n1"), node("n2"))
    original = MisbehavingPlugin._act

    def interrupted(self: MisbehavingPlugin, pod: Any, at: str, otherwise: Any = None) -> Any:
        if at == method:
            signal.raise_signal(signal.SIGINT)
        return original(self, pod, at, otherwise)

    monkeypatch.setattr(MisbehavingPlugin, "_act", interrupted)
    harness.add(pod("a"))
    # SIGINT is ignored in tests that run in the background.
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            harness.run()
    finally:
        signal.signal(signal.SIGINT, previous)
    return weakref.ref(harness)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", ["filter", "score", "permit", "pre_bind"])
def test_sigint_stops_the_process_without_leaks(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    harness = send_sigint_in(method, monkeypatch)
    gc.collect()  # asyncio reports tasks when they are collected
    assert (harness(), caplog.records) == (None, [])


def coroutine() -> Any:
    async def return_none() -> None:
        return None

    return return_none()


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
    ("score", 1 << 63, "score returned 9223372036854775808 (int), expected a whole number of 64 bits"),
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


@pytest.mark.parametrize(("method", "value", "text"), WRONG)
def test_wrong_return_value_fails_the_attempt_with_the_plugins_name(
    cluster: Cluster, method: str, value: Any, text: str
) -> None:
    harness, counting = cluster
    MisbehavingPlugin.acts[:] = [value() if value is coroutine else value]
    harness.add(pod("bad").label("at", method), pod("good"))
    harness.run()
    assert set(harness.assignments) == {"good"}
    assert harness.pending_message("bad").startswith(f"plugin MisbehavingPlugin: {text}")
    assert counting.counted == {("MisbehavingPlugin", METHODS[method])}


@pytest.mark.parametrize("score", [5000, -1])
def test_score_out_of_range_fails_the_attempt(cluster: Cluster, score: int, monkeypatch: pytest.MonkeyPatch) -> None:
    harness, _ = cluster
    MisbehavingPlugin.acts[:] = [score]
    harness.add(pod("bad").label("at", "score"), pod("good"))
    harness.run()
    assert set(harness.assignments) == {"good"}
    assert harness.pending_message("bad") == f"plugin MisbehavingPlugin: normalize returned {score}, expected 0 to 100"


@pytest.mark.parametrize("error", EXCEPTIONS, ids=lambda error: type(error).__name__)
def test_pod_backs_off_when_score_all_raises(error: BaseException) -> None:
    counting = Counting()
    harness = Harness(CONFIG, instrument=counting)
    harness.add(*(node(f"n{i}") for i in range(40)))
    MisbehavingPlugin.acts[:] = [error]
    harness.add(pod("bad").label("at", "score_all"), pod("good"))
    harness.run()
    MisbehavingPlugin.acts.clear()
    assert set(harness.assignments) == {"good"}
    assert counting.counted == {("MisbehavingPlugin", "Score")}


@pytest.mark.parametrize(
    ("read", "text"),
    [
        ("objects", "licences.example.com are not watched: add the kind to the `watches` of the plugin"),
        ("version", "licences.example.com are not watched: add the kind to the `watches` of the plugin"),
        ("pods", 'pods are not indexed by the label "app": add it to the `indexes` of the plugin'),
    ],
)
def test_attempt_fails_when_a_plugin_reads_undeclared_objects(read: str, text: str) -> None:
    harness = Harness(CONFIG.replace("MisbehavingPlugin", "Undeclared").partition("    bind:")[0])
    harness.add(node("n1"), pod("a").label("read", read))
    harness.run()
    assert harness.pending_message("a") == f'running "Undeclared" filter plugin: LookupError: {text}'


COLUMNS = [
    ([1], "score_all returned list, expected an array of int64"),
    (np.zeros(3, np.int64), "score_all returned 3 scores, expected one for each of 40 nodes"),
    (np.zeros(40), "score_all returned an array of float64, expected an array of int64"),
    (np.int64(7), "score_all returned int64, expected an array of int64"),
]


@pytest.mark.parametrize(("scores", "text"), COLUMNS)
def test_wrong_array_of_score_all_fails_the_attempt(scores: Any, text: str) -> None:
    counting = Counting()
    harness = Harness(CONFIG, instrument=counting)
    harness.add(*(node(f"n{i}") for i in range(40)))
    MisbehavingPlugin.acts[:] = [scores]
    harness.add(pod("bad").label("at", "score_all"))
    harness.run()
    MisbehavingPlugin.acts.clear()
    assert harness.pending_message("bad") == f"plugin MisbehavingPlugin: {text}"
    assert counting.counted == {("MisbehavingPlugin", "Score")}


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Wait("30s"), "Wait: seconds must be a number, not str"),  # type: ignore[arg-type]
        (lambda: Wait(5, recheck_every="1"), "Wait: recheck_every must be a number, not str"),  # type: ignore[arg-type]
        (lambda: Wait(float("nan")), "Wait: seconds must be a number, not nan"),
        (lambda: NodeNames("n1"), "NodeNames: names must be a frozenset, not str"),  # type: ignore[arg-type]
        (lambda: Rejection(5), "Rejection: a reason must be a str, not int"),  # type: ignore[arg-type]
        (lambda: Nominate(None), "Nominate: node_name must be a str, not NoneType"),  # type: ignore[arg-type]
        (lambda: Nominate("n", "a"), "Nominate: evict must be a tuple of Pods, not str"),  # type: ignore[arg-type]
        (lambda: Nominate("n", ("a",)), "Nominate: evict must be a tuple of Pods, not one with str"),  # type: ignore[arg-type]
        (lambda: Nominate("n", (), 5), "Nominate: message must be a str, not int"),  # type: ignore[arg-type]
        (lambda: ClearNomination("no"), "ClearNomination: rejection must be a Rejection, not str"),  # type: ignore[arg-type]
        (lambda: NominateGroup({"a": 1}), "NominateGroup: nodes must be a mapping of str to str, not one with int"),  # type: ignore[dict-item]
        (
            lambda: ClusterEventWithHint(LICENCE, Action.ALL),  # type: ignore[arg-type]
            "ClusterEventWithHint: resource must be a kind such as POD, or `kind` of a ResourceKind, not ResourceKind",
        ),
        (
            lambda: ClusterEventWithHint("Node", "ADD"),  # type: ignore[arg-type]
            "ClusterEventWithHint: actions must be an Action, not str",
        ),
        (
            lambda: ClusterEventWithHint("Node", Action.ADD, True),  # type: ignore[arg-type]
            "ClusterEventWithHint: hint must be a function or None, not bool",
        ),
        (
            lambda: ClusterEventWithHint("Node", Action.ADD, None, print),  # type: ignore[arg-type]
            "ClusterEventWithHint: pre_hint must be a PreQueueingHint or None, not builtin_function_or_method",
        ),
    ],
)
def test_outcome_with_wrong_argument_types_raises_type_error(make: Any, text: str) -> None:
    with pytest.raises(TypeError) as raised:
        make()
    assert str(raised.value) == text
