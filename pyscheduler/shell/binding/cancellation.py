"""How a binding cycle is ended before its time: its plugin is cancelled, and what it may have done is looked at.

A binding that was sent is not cut off: its answer says how it ended, and comes in time. A plugin that does not stop is
named and left to itself; whatever it tries to do to the cluster from then on is refused. Where nobody can say whether
the pod was bound, it is looked up, as often as it takes: its place is not another's before that is known.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec

from pyscheduler.api.handle import ApiError, ApiWriter
from pyscheduler.core.commands import Bind
from pyscheduler.core.events import BindFailed, Bound
from pyscheduler.core.instrument import Instrument
from pyscheduler.shell import logs
from pyscheduler.shell.binding.client import BindingClient
from pyscheduler.shell.clock import Clock
from pyscheduler.shell.kube import paths

PATIENCE: Final = 2.0
"""Seconds that a plugin is given to stop once it is cancelled."""
_PAUSES: Final = (0.5, 1.0, 2.0, 5.0, 10.0)
"""Seconds between two looks at a pod, the last again and again."""
log = logs.get("binding")


class CancellationIgnored(Exception):
    """A plugin goes on though it was cancelled."""


async def wait_until_stopped(hand: BindingClient, instrument: Instrument) -> None:
    """Return when the plugin of a hand that is shut has stopped, or is known not to."""
    command, plugin, point, task = hand.command, hand.plugin, hand.point, hand.task
    await hand.wait_for_responses()
    if command is None or task is None:
        return
    task.cancel()
    await asyncio.wait({task}, timeout=PATIENCE)
    if not task.done():
        goes_on = f"for pod {command.pod.key} it goes on {PATIENCE:g}s after it was cancelled; it is left alone now"
        instrument.plugin_failed(plugin, point, CancellationIgnored(goes_on))


async def resolve_outcome(
    hand: BindingClient, command: Bind, failed: BindFailed, api: ApiWriter, clock: Clock
) -> Bound | BindFailed:
    """How a binding came out that ended with `failed`, as far as one knows, and may have been made all the same."""
    if hand.is_bound or await _node_of(command, api, clock) == command.node_name:
        return Bound(clock.now(), command.pod.uid)
    return msgspec.structs.replace(failed, at=clock.now())


async def _node_of(command: Bind, api: ApiWriter, clock: Clock) -> str:
    """The node that the pod is on, "" for none; returns once the API server has said it, or that it will not."""
    pod, tries = command.pod, 0
    while True:
        try:
            return _assigned_node(await api.get(paths.pod(pod.namespace, pod.name)), pod.uid)
        except ApiError as problem:
            if 400 <= problem.status < 500 and problem.status != 429:
                return ""
            log.warning("A pod that may be bound cannot be looked up", problem, pod=pod.key, node=command.node_name)
        await clock.sleep(_PAUSES[min(tries, len(_PAUSES) - 1)])
        tries += 1


def _assigned_node(found: dict[str, Any], uid: str) -> str:
    metadata, spec = found.get("metadata") or {}, found.get("spec") or {}
    return str(spec.get("nodeName") or "") if metadata.get("uid") == uid else ""
