"""Binding cycle of one pod: run its PreBind, Bind and PostBind plugins in order and return the outcome.

A plugin that raises is reported and its pod is requeued with backoff; the loop continues. Plugins call the API server
through the cycle's client. A plugin may ignore the cancellation of its cycle, so a cancelled client rejects all further
calls. A binding that was sent before is awaited, so that its outcome is known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar

from pyscheduler import logs
from pyscheduler.api.cycle import Cycle
from pyscheduler.api.handle import ApiError, ApiWriter
from pyscheduler.api.metrics import PluginMetric
from pyscheduler.api.outcome import SKIP, Code, Rejection, Skip, StatusError
from pyscheduler.api.plugin import BindPlugin
from pyscheduler.api.pod import Pod
from pyscheduler.api.return_values import InvalidReturnValue
from pyscheduler.clock import Clock
from pyscheduler.core.commands import Bind
from pyscheduler.core.events import BindFailed, Bound
from pyscheduler.core.extenders.extender import ExtenderFailed
from pyscheduler.core.framework.plugin_failure import PluginFailed, raise_plugin_failed
from pyscheduler.core.framework.result_checks import check_result
from pyscheduler.core.instrument import ERROR, SUCCESS, Instrument, status_of
from pyscheduler.kube.errors import unanswered
from pyscheduler.shell.binding.plugin_tasks import IN_PLUGIN, is_own_cancellation
from pyscheduler.texts import text_of

PRE_BIND, BIND, POST_BIND = "PreBind", "Bind", "PostBind"
CANCELLED: Final = "Cancelled"
"""ApiError.reason: the call was rejected because its binding cycle was cancelled."""
T = TypeVar("T")
Act = Callable[[Cycle, Pod, str, ApiWriter], Coroutine[Any, Any, T]]
Response = Coroutine[Any, Any, dict[str, Any]]


class BindingClient(ApiWriter):
    """API access of the plugins of one binding cycle, through `api`; reused for the next pod of the worker."""

    def __init__(self, api: ApiWriter, log: logs.LimitedLog) -> None:
        self._api = api
        self.log = log
        """Log of failed calls of all binding cycles."""
        self.task: asyncio.Task[None] | None = None
        self.command: Bind | None = None
        """The binding cycle that is running; None while there is none."""
        self.began = 0.0
        self.point = self.plugin = ""
        """The running plugin and its extension point."""
        self.is_bound = False
        """True if the API server confirmed the binding of the pod."""
        self.may_be_bound = False
        """True if a call that may have bound the pod failed without a definite response."""
        self.is_detached = False
        """True if the cycle is slow and occupies no worker any more; the client takes no other pod then."""
        self.is_cancelled = False
        self.is_reported = False
        """True if the result was emitted, possibly before the cycle ends."""
        self._sent = 0
        self._all_received: asyncio.Event | None = None

    def start(self, command: Bind, now: float) -> None:
        """Begin the binding cycle of `command` at time `now`."""
        self.command, self.began = command, now
        self.is_bound = self.may_be_bound = self.is_reported = False

    def cancel(self) -> None:
        """Reject all further calls."""
        self.is_cancelled = True

    @property
    def is_binding(self) -> bool:
        """Return True while a binding, or a status write that it waits for, is in flight."""
        return self._sent > 0

    async def wait_for_responses(self) -> None:
        """Wait until no call is in flight; the connection's deadline bounds the time."""
        if self._sent:
            self._all_received = asyncio.Event()
            await self._all_received.wait()

    async def wait_for_write(self, written: asyncio.Event) -> None:
        """Wait for a status write that the binding must not overtake; counts as part of the binding."""
        self._sent += 1
        try:
            await written.wait()
        finally:
            self._response_received()

    async def bind(self, pod: Pod, node_name: str) -> None:
        self._check()
        self._sent += 1
        try:
            await self._api.bind(pod, node_name)
        finally:
            self._response_received()
        command = self.command
        self.is_bound = command is not None and (command.pod.uid, command.node_name) == (pod.uid, node_name)

    def _response_received(self) -> None:
        self._sent -= 1
        if self._all_received is not None and not self._sent:
            self._all_received.set()

    def get(self, path: str) -> Response:
        self._check()
        return self._api.get(path)

    def create(self, path: str, body: Mapping[str, Any]) -> Response:
        self._check()
        return self._create_binding(path, body) if path.endswith("/binding") else self._api.create(path, body)

    async def _create_binding(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        created = await self._api.create(path, body)
        self.is_bound = True
        return created

    def replace(self, path: str, body: Mapping[str, Any]) -> Response:
        self._check()
        return self._api.replace(path, body)

    def merge(self, path: str, patch: Mapping[str, Any]) -> Response:
        self._check()
        return self._api.merge(path, patch)

    def delete(self, path: str) -> Coroutine[Any, Any, None]:
        self._check()
        return self._api.delete(path)

    def sleep(self, seconds: float) -> Coroutine[Any, Any, None]:
        self._check()
        return self._api.sleep(seconds)

    def timestamp(self) -> str:
        return self._api.timestamp()

    def record(self, pod: Pod, reason: str, action: str, note: str) -> None:
        if not self.is_cancelled:
            self._api.record(pod, reason, action, note)

    def observe(self, metric: PluginMetric, labels: tuple[str, ...] = (), value: float = 1) -> None:
        self._api.observe(metric, labels, value)

    def _check(self) -> None:
        if self.is_cancelled:
            raise ApiError(0, CANCELLED, "the binding cycle was cancelled")


async def run_binding(command: Bind, api: ApiWriter, clock: Clock, instrument: Instrument) -> Bound | BindFailed:
    """Run a whole binding cycle and return its outcome."""
    client = BindingClient(api, logs.LimitedLog("binding", clock.now))
    client.start(command, clock.now())
    return await prepare(command, client, clock, instrument) or await bind(command, client, clock, instrument)


async def prepare(command: Bind, client: BindingClient, clock: Clock, instrument: Instrument) -> BindFailed | None:
    """Run PreBind, which may take minutes. Return None if the pod can be bound now."""
    if not command.plan.pre_bind:
        return None
    began = clock.now()
    failed = await _pre_bind(command, client, clock, instrument)
    instrument.point_took(PRE_BIND, command.cycle.profile, _status(failed), clock.now() - began)
    return failed


async def _pre_bind(command: Bind, client: BindingClient, clock: Clock, instrument: Instrument) -> BindFailed | None:
    client.point = PRE_BIND
    for pre in command.plan.pre_bind:
        client.plugin = pre.name
        try:
            rejection = await _call_plugin(pre.pre_bind, command, client, clock, instrument)
        except PluginFailed as failed:
            return _report_failure(command, failed, client, clock, instrument)
        if rejection is not None:
            return BindFailed(clock.now(), command.pod.uid, rejection.message, pre.name, rejected=True)
    return None


async def bind(command: Bind, client: BindingClient, clock: Clock, instrument: Instrument) -> Bound | BindFailed:
    """Run the second half of the cycle: Bind plugins until one does not skip the pod, then PostBind plugins."""
    began, profile, uid = clock.now(), command.cycle.profile, command.pod.uid
    outcome: Bound | BindFailed
    client.point = BIND
    for plugin in command.plan.bind:
        client.plugin = plugin.name
        try:
            result = await _call_plugin(plugin.bind, command, client, clock, instrument)
        except PluginFailed as failed:
            client.may_be_bound = _may_have_bound(failed.error)
            outcome = _report_failure(command, failed, client, clock, instrument)
            break
        if result is not SKIP:
            outcome = _bind_outcome(plugin, result, command, client, clock, instrument)
            break
    else:
        outcome = BindFailed(clock.now(), uid, "bind status: every Bind plugin skipped the pod")
    now = clock.now()
    instrument.point_took(BIND, profile, _status(outcome), now - began)
    if isinstance(outcome, Bound) and command.plan.post_bind:
        await _post_bind(command, client, clock, instrument)
        instrument.point_took(POST_BIND, profile, SUCCESS, clock.now() - now)
        return Bound(clock.now(), uid)
    return outcome


def _bind_outcome(
    plugin: BindPlugin,
    result: Rejection | Skip | None,
    command: Bind,
    client: BindingClient,
    clock: Clock,
    instrument: Instrument,
) -> Bound | BindFailed:
    """Return what a Bind plugin's result means. A plugin that returns None must have made the binding."""
    if isinstance(result, Rejection):
        return BindFailed(clock.now(), command.pod.uid, result.message, plugin.name, rejected=True)
    if client.is_bound or plugin.binds_without_api:
        return Bound(clock.now(), command.pod.uid)
    nothing = InvalidReturnValue(plugin.bind, result, "a binding made by `api.bind`, a Rejection or SKIP")
    return _report_failure(command, PluginFailed(plugin.name, BIND, nothing), client, clock, instrument)


async def _post_bind(command: Bind, client: BindingClient, clock: Clock, instrument: Instrument) -> None:
    client.point = POST_BIND
    for post in command.plan.post_bind:
        client.plugin = post.name
        try:
            await _call_plugin(post.post_bind, command, client, clock, instrument)
        except PluginFailed as failed:
            # The pod is bound: a failure here is reported, but does not change the outcome.
            _report_failure(command, failed, client, clock, instrument)


async def _call_plugin(act: Act[T], command: Bind, client: BindingClient, clock: Clock, instrument: Instrument) -> T:
    """Return what a plugin's method returns; observe its duration if the attempt is sampled.

    PluginFailed if the plugin raises anything. CancelledError only if this task was cancelled: a CancelledError that
    the plugin raises itself, or gets from a task that it awaited, is a failure of the plugin.
    """
    began, status = clock.now(), ERROR
    IN_PLUGIN.set(True)
    try:
        coroutine: object = act(command.cycle, command.pod, command.node_name, client)
        if not isinstance(coroutine, Awaitable):
            raise InvalidReturnValue(act, coroutine, "a coroutine (async def)")
        result: T = await coroutine
        check_result(client.point, act, result)
        status = status_of(result)
        return result
    except BaseException as error:
        if is_own_cancellation(error):
            raise
        raise_plugin_failed(client.plugin, client.point, error)
    finally:
        if command.cycle.call_observer is not None:
            instrument.plugin_took(client.plugin, client.point, status, clock.now() - began)


def _may_have_bound(error: BaseException) -> bool:
    """Return True if the API server may have bound the pod although the call failed."""
    if isinstance(error, ExtenderFailed):
        return True
    return isinstance(error, ApiError) and (unanswered(error) or error.status >= 500)


def _status(outcome: Bound | BindFailed | None) -> str:
    if not isinstance(outcome, BindFailed):
        return SUCCESS
    return Code.UNSCHEDULABLE.camel if outcome.rejected else ERROR


def _report_failure(
    command: Bind, failed: PluginFailed, client: BindingClient, clock: Clock, instrument: Instrument
) -> BindFailed:
    """Log the failure (API server, plugin and extender errors as they are, anything else as a bug) and return it."""
    pod, node, plugin, error = command.pod.key, command.node_name, failed.plugin, failed.error
    if isinstance(error, ExtenderFailed):
        client.log.warning("An extender failed to bind", error, pod=pod, node=node)
        failed.drop_traceback()
        return BindFailed(clock.now(), command.pod.uid, text_of(error), plugin)
    if isinstance(error, ApiError | StatusError):
        client.log.warning("Binding failed", error, pod=pod, node=node, plugin=plugin)
    else:
        instrument.plugin_failed(plugin, failed.point, error)
    failed.drop_traceback()
    return BindFailed(clock.now(), command.pod.uid, str(failed), plugin)
