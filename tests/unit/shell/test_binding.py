"""Exceptions of plugins in the binding cycle: counted by extension point, without affecting other pods."""

from __future__ import annotations

import asyncio
import linecache
from typing import Any, cast

import pytest

from pyscheduler.api import (
    ApiError,
    ApiWriter,
    BindPlugin,
    Cycle,
    Pod,
    PostBindPlugin,
    PreBindPlugin,
    Rejection,
    StatusError,
)
from pyscheduler.core.commands import Bind, BindingPlan
from pyscheduler.core.events import BindFailed, Bound
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.shell.binding.cycle import run_binding
from pyscheduler.shell.instrument import MetricsInstrument
from pyscheduler.shell.metrics import Metrics
from pyscheduler.testing import pod
from tests.unit.kube.virtual import VirtualClock

HANDLE = empty_handle()


class Shaky(PreBindPlugin, BindPlugin, PostBindPlugin):
    """Raises `error` at one extension point and succeeds at the others."""

    name = "Shaky"
    binds_without_api = True

    def __init__(self, point: str, error: BaseException) -> None:
        self._point, self._error = point, error

    def _raise_at(self, point: str) -> None:
        if point == self._point:
            raise self._error

    async def pre_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> Rejection | None:
        self._raise_at("PreBind")
        return None

    async def bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> None:
        self._raise_at("Bind")

    async def post_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> None:
        self._raise_at("PostBind")


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class ApiErrorWithoutStatus(ApiError):
    """ApiError with a constructor that does not call the one of ApiError."""

    def __init__(self) -> None:
        pass


class ApiErrorWithoutText(ApiError):
    def __init__(self) -> None:
        super().__init__(500, "Broken", "no text")

    def __str__(self) -> str:
        raise RuntimeError("no text")


async def bind(metrics: Metrics, point: str, error: BaseException) -> Bound | BindFailed:
    plugin, clock, subject = Shaky(point, error), VirtualClock(), pod("a").build()
    plan = BindingPlan((plugin,), (plugin,), (plugin,))
    command = Bind(subject, "n1", Cycle(0.0, "mine", subject.uid), plan)
    return await run_binding(command, cast(ApiWriter, None), clock, MetricsInstrument(metrics, clock.now))


@pytest.mark.parametrize("point", ["PreBind", "Bind"])
async def test_exception_of_a_plugin_fails_the_binding_and_is_counted(point: str) -> None:
    metrics = Metrics()
    outcome = await bind(metrics, point, ZeroDivisionError("one over nothing"))
    assert isinstance(outcome, BindFailed)
    assert outcome.message == f'running {point} plugin "Shaky": ZeroDivisionError: one over nothing'
    assert dict(metrics.plugin_failures.counts) == {("Shaky", point): 1}


async def test_pod_is_bound_although_post_bind_raises() -> None:
    metrics = Metrics()
    assert isinstance(await bind(metrics, "PostBind", ZeroDivisionError()), Bound)
    assert dict(metrics.plugin_failures.counts) == {("Shaky", "PostBind"): 1}


@pytest.mark.parametrize("point", ["PreBind", "Bind", "PostBind"])
@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        SystemExit(3),
        GeneratorExit(),
        asyncio.CancelledError(),
        MemoryError(),
        Unprintable(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_no_exception_of_a_plugin_leaves_the_binding_cycle(point: str, error: BaseException) -> None:
    metrics = Metrics()
    outcome = await bind(metrics, point, error)
    assert isinstance(outcome, Bound) == (point == "PostBind")
    assert dict(metrics.plugin_failures.counts) == {("Shaky", point): 1}


class Waits(PreBindPlugin):
    name = "Waits"

    async def pre_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> None:
        await asyncio.Event().wait()


async def test_cancelled_binding_cycle_counts_no_plugin_failure() -> None:
    metrics, clock, subject = Metrics(), VirtualClock(), pod("a").build()
    command = Bind(subject, "n1", Cycle(0.0, "mine", subject.uid), BindingPlan((Waits(None, HANDLE),), (), ()))
    cycle = run_binding(command, cast(ApiWriter, None), clock, MetricsInstrument(metrics, clock.now))
    task = asyncio.create_task(cycle)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not metrics.plugin_failures.counts


async def test_log_names_the_line_of_the_plugin_that_raised(caplog: pytest.LogCaptureFixture) -> None:
    await bind(Metrics(), "Bind", KeyError("x"))
    [record] = caplog.records
    fields = record.__dict__["fields"]
    assert fields["err"] == "KeyError: 'x'"
    assert fields["plugin"] == "Shaky"
    file, _, line = fields["at"].rpartition(":")
    assert file == __file__
    assert "raise self._error" in linecache.getline(file, int(line))


async def test_log_names_the_method_that_returned_an_invalid_value(caplog: pytest.LogCaptureFixture) -> None:
    class ReturnsTrue(PostBindPlugin):
        name = "ReturnsTrue"

        async def post_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> Any:
            return True

    clock, subject, shaky = VirtualClock(), pod("a").build(), Shaky("", ValueError())
    plan = BindingPlan((), (shaky,), (ReturnsTrue(None, HANDLE),))
    command = Bind(subject, "n1", Cycle(0.0, "mine", subject.uid), plan)
    await run_binding(command, cast(ApiWriter, None), clock, MetricsInstrument(Metrics(), clock.now))
    [record] = caplog.records
    fields = record.__dict__["fields"]
    assert fields["err"] == "post_bind returned bool, expected None"
    file, _, line = fields["at"].rpartition(":")
    assert "async def post_bind" in linecache.getline(file, int(line))


@pytest.mark.parametrize("point", ["PreBind", "Bind", "PostBind"])
@pytest.mark.parametrize(
    "error",
    [
        ApiError(409, "Conflict", "too late"),
        StatusError("no such class"),
        ApiErrorWithoutStatus(),
        ApiErrorWithoutText(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_api_and_status_errors_are_not_counted_as_plugin_failures(point: str, error: Any) -> None:
    metrics = Metrics()
    await bind(metrics, point, error)
    assert not metrics.plugin_failures.counts


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((None, None, None), "ApiError: status must be an int, not NoneType"),
        (("500", "Broken", "x"), "ApiError: status must be an int, not str"),
        ((500, None, "x"), "ApiError: reason must be a str, not NoneType"),
        ((500, "Broken", b"x"), "ApiError: message must be a str, not bytes"),
    ],
)
def test_api_error_with_wrong_argument_types_raises_type_error(arguments: Any, text: str) -> None:
    with pytest.raises(TypeError) as raised:
        ApiError(*arguments)
    assert str(raised.value) == text
