"""The binding cycle of one pod: PreBind, Bind and PostBind plugins act, in order, and an event tells how it ended.

A plugin that raises costs its pod one backoff and is named; nothing it does can stop the loop.
"""

from __future__ import annotations

from pyscheduler.api.handle import ApiError, ApiWriter
from pyscheduler.api.outcome import SKIP, Rejection, StatusError
from pyscheduler.core.commands import Bind
from pyscheduler.core.events import BindFailed, Bound
from pyscheduler.core.extending import ExtenderFailed
from pyscheduler.shell import logs
from pyscheduler.shell.clock import Clock

log = logs.get("binding")


async def run_binding(command: Bind, api: ApiWriter, clock: Clock) -> Bound | BindFailed:
    """Run the cycle to its end."""
    return await prepare(command, api, clock) or await bind(command, api, clock)


async def prepare(command: Bind, api: ApiWriter, clock: Clock) -> BindFailed | None:
    """The first half, PreBind, which may wait for minutes; None if the pod can be bound now."""
    for pre in command.plan.pre_bind:
        try:
            rejection = await pre.pre_bind(command.cycle, command.pod, command.node_name, api)
        except Exception as error:
            return _broken(command, pre.name, "PreBind", error, clock)
        if rejection is not None:
            return BindFailed(clock.now(), command.pod.uid, rejection.message, pre.name, rejected=True)
    return None


async def bind(command: Bind, api: ApiWriter, clock: Clock) -> Bound | BindFailed:
    """The second half: Bind and PostBind."""
    failed = await _bind(command, api, clock)
    if failed is not None:
        return failed
    for post in command.plan.post_bind:
        try:
            await post.post_bind(command.cycle, command.pod, command.node_name, api)
        except Exception as error:
            # The pod is bound; all that is left to do is to say so.
            _broken(command, post.name, "PostBind", error, clock)
    return Bound(clock.now(), command.pod.uid)


async def _bind(command: Bind, api: ApiWriter, clock: Clock) -> BindFailed | None:
    uid = command.pod.uid
    for plugin in command.plan.bind:
        try:
            answer = await plugin.bind(command.cycle, command.pod, command.node_name, api)
        except ExtenderFailed as failed:
            log.warning("An extender failed to bind", failed, pod=command.pod.key, node=command.node_name)
            return BindFailed(clock.now(), uid, str(failed), plugin.name)
        except Exception as error:
            return _broken(command, plugin.name, "Bind", error, clock)
        if isinstance(answer, Rejection):
            return BindFailed(clock.now(), uid, answer.message, plugin.name, rejected=True)
        if answer is not SKIP:
            return None
    return BindFailed(clock.now(), uid, "bind status: every Bind plugin skipped the pod")


def _broken(command: Bind, plugin: str, point: str, error: Exception, clock: Clock) -> BindFailed:
    """What the API server refused or a plugin found amiss is told as it is; anything else is a bug, logged as one."""
    if isinstance(error, ApiError | StatusError):
        log.warning("Binding failed", error, pod=command.pod.key, node=command.node_name, plugin=plugin)
    else:
        log.crash("A plugin raised", error, pod=command.pod.key, plugin=plugin, point=point)
    message = f'running {point} plugin "{plugin}": {str(error) or type(error).__name__}'
    return BindFailed(clock.now(), command.pod.uid, message, plugin)
