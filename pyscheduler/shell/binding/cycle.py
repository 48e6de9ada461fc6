"""The binding cycle of one pod: PreBind, Bind and PostBind plugins act, in order, and an event tells how it ended.

A plugin that raises costs its pod one backoff and is named; nothing it does can stop the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from pyscheduler.api.handle import ApiError, ApiWriter
from pyscheduler.api.outcome import SKIP, Code, Rejection, StatusError
from pyscheduler.core.commands import Bind
from pyscheduler.core.events import BindFailed, Bound
from pyscheduler.core.extending import ExtenderFailed
from pyscheduler.core.instrument import ERROR, SUCCESS, Instrument, status_of
from pyscheduler.shell import logs
from pyscheduler.shell.binding.hand import Hand
from pyscheduler.shell.clock import Clock
from pyscheduler.shell.kube.faults import unanswered

PRE_BIND, BIND, POST_BIND = "PreBind", "Bind", "PostBind"
log = logs.get("binding")
T = TypeVar("T")


async def run_binding(command: Bind, api: ApiWriter, clock: Clock, instrument: Instrument) -> Bound | BindFailed:
    """Run the cycle to its end."""
    hand = Hand(api)
    hand.takes(command, clock.now())
    return await prepare(command, hand, clock, instrument) or await bind(command, hand, clock, instrument)


async def prepare(command: Bind, hand: Hand, clock: Clock, instrument: Instrument) -> BindFailed | None:
    """The first half, PreBind, which may wait for minutes; None if the pod can be bound now."""
    if not command.plan.pre_bind:
        return None
    began = clock.now()
    failed = await _pre_bind(command, hand, clock, instrument)
    instrument.point_took(PRE_BIND, command.cycle.profile, _status(failed), clock.now() - began)
    return failed


async def _pre_bind(command: Bind, hand: Hand, clock: Clock, instrument: Instrument) -> BindFailed | None:
    hand.point = PRE_BIND
    for pre in command.plan.pre_bind:
        hand.plugin = pre.name
        try:
            acting = pre.pre_bind(command.cycle, command.pod, command.node_name, hand)
            rejection = await _acted(acting, command, pre.name, PRE_BIND, clock, instrument)
            if rejection is not None:
                return BindFailed(clock.now(), command.pod.uid, rejection.message, pre.name, rejected=True)
        except Exception as error:
            return _broken(command, pre.name, PRE_BIND, error, clock, instrument)
    return None


async def bind(command: Bind, hand: Hand, clock: Clock, instrument: Instrument) -> Bound | BindFailed:
    """The second half: Bind and PostBind."""
    began, profile = clock.now(), command.cycle.profile
    failed = await _bind(command, hand, clock, instrument)
    now = clock.now()
    instrument.point_took(BIND, profile, _status(failed), now - began)
    if failed is not None:
        return failed
    if command.plan.post_bind:
        await _post_bind(command, hand, clock, instrument)
        now, began = clock.now(), now
        instrument.point_took(POST_BIND, profile, SUCCESS, now - began)
    return Bound(now, command.pod.uid)


async def _bind(command: Bind, hand: Hand, clock: Clock, instrument: Instrument) -> BindFailed | None:
    uid = command.pod.uid
    hand.point = BIND
    for plugin in command.plan.bind:
        hand.plugin = plugin.name
        try:
            acting = plugin.bind(command.cycle, command.pod, command.node_name, hand)
            answer = await _acted(acting, command, plugin.name, BIND, clock, instrument)
        except ExtenderFailed as failed:
            hand.is_unsure = True
            log.warning("An extender failed to bind", failed, pod=command.pod.key, node=command.node_name)
            return BindFailed(clock.now(), uid, str(failed), plugin.name)
        except Exception as error:
            hand.is_unsure = _may_have_bound(error)
            return _broken(command, plugin.name, BIND, error, clock, instrument)
        if isinstance(answer, Rejection):
            return BindFailed(clock.now(), uid, answer.message, plugin.name, rejected=True)
        if answer is not SKIP:
            return None
    return BindFailed(clock.now(), uid, "bind status: every Bind plugin skipped the pod")


async def _post_bind(command: Bind, hand: Hand, clock: Clock, instrument: Instrument) -> None:
    hand.point = POST_BIND
    for post in command.plan.post_bind:
        hand.plugin = post.name
        try:
            acting = post.post_bind(command.cycle, command.pod, command.node_name, hand)
            await _acted(acting, command, post.name, POST_BIND, clock, instrument)
        except Exception as error:
            # The pod is bound; all that is left to do is to say so.
            _broken(command, post.name, POST_BIND, error, clock, instrument)


async def _acted(
    acting: Coroutine[Any, Any, T], command: Bind, plugin: str, point: str, clock: Clock, instrument: Instrument
) -> T:
    """What a plugin answers; the instrument hears how long it took where the attempt is watched."""
    if command.cycle.watch is None:
        return await _sensible(acting)
    began, status = clock.now(), ERROR
    try:
        answer = await _sensible(acting)
        status = status_of(answer)
        return answer
    finally:
        instrument.plugin_took(plugin, point, status, clock.now() - began)


async def _sensible(acting: Coroutine[Any, Any, T]) -> T:
    """What a plugin answers, if that is an answer. TypeError if not: the pod must not be taken to be bound.

    RuntimeError if it gives up because something that it waited for was cancelled: it is not we who are to stop then.
    """
    try:
        answer = await acting
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError("what it waited for was cancelled") from None
    if not (answer is None or answer is SKIP or isinstance(answer, Rejection)):
        raise TypeError(f"it answered {answer!r}")
    return answer


def _may_have_bound(error: Exception) -> bool:
    """Whether the API server may have done what was asked of it, though it has not said so."""
    return isinstance(error, ApiError) and (unanswered(error) or error.status >= 500)


def _status(failed: BindFailed | None) -> str:
    if failed is None:
        return SUCCESS
    return Code.UNSCHEDULABLE.camel if failed.rejected else ERROR


def _broken(
    command: Bind, plugin: str, point: str, error: Exception, clock: Clock, instrument: Instrument
) -> BindFailed:
    """What the API server refused or a plugin found amiss is told as it is; anything else is a bug, told as one."""
    if isinstance(error, ApiError | StatusError):
        log.warning("Binding failed", error, pod=command.pod.key, node=command.node_name, plugin=plugin)
    else:
        instrument.plugin_failed(plugin, point, error)
    message = f'running {point} plugin "{plugin}": {str(error) or type(error).__name__}'
    return BindFailed(clock.now(), command.pod.uid, message, plugin)
