"""Cancellation of a binding cycle: stop its plugin, then find out if the pod was bound.

A binding that was sent is not interrupted: its response comes before the call's deadline and settles the outcome. A
plugin that ignores the cancellation is reported and abandoned; its later API calls are rejected. If the outcome is
unknown, the pod is read from the API server until it is known; the pod keeps its place on the node until then.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec

from pyscheduler.api.handle import ApiError, ApiWriter
from pyscheduler.clock import Clock
from pyscheduler.core.commands import Bind
from pyscheduler.core.events import BindFailed, Bound
from pyscheduler.core.instrument import Instrument
from pyscheduler.kube import paths
from pyscheduler.shell.binding.cycle import BindingClient

PATIENCE: Final = 2.0
"""Seconds that a cancelled plugin has to stop."""
_PAUSES: Final = (0.5, 1.0, 2.0, 5.0, 10.0)
"""Seconds between two reads of a pod; the last one repeats."""


class CancellationIgnored(Exception):
    """A plugin kept running after its cancellation."""


async def wait_until_stopped(client: BindingClient, instrument: Instrument) -> None:
    """Wait until the plugin of a cancelled client has stopped; report the plugin if it does not."""
    command, plugin, point, task = client.command, client.plugin, client.point, client.task
    await client.wait_for_responses()
    if command is None or task is None:
        return
    task.cancel()
    await asyncio.wait({task}, timeout=PATIENCE)
    if not task.done():
        message = f"still running {PATIENCE:g}s after cancellation for pod {command.pod.key}; abandoned"
        instrument.plugin_failed(plugin, point, CancellationIgnored(message))


async def resolve_outcome(
    client: BindingClient, command: Bind, failed: BindFailed, api: ApiWriter, clock: Clock
) -> Bound | BindFailed:
    """Return `failed`, or Bound if the pod was bound nevertheless, reading the pod if that is unknown."""
    if client.is_bound or await _node_of(client, command, api, clock) == command.node_name:
        return Bound(clock.now(), command.pod.uid)
    return msgspec.structs.replace(failed, at=clock.now())


async def _node_of(client: BindingClient, command: Bind, api: ApiWriter, clock: Clock) -> str:
    """Return the pod's node, "" for none or if the API server rejects the read; retry all other failures."""
    pod, tries = command.pod, 0
    while True:
        try:
            return _assigned_node(await api.get(paths.pod(pod.namespace, pod.name)), pod.uid)
        except ApiError as problem:
            if 400 <= problem.status < 500 and problem.status != 429:
                return ""
            text = "Cannot read a pod that may be bound, retrying"
            client.log.warning(text, problem, pod=pod.key, node=command.node_name)
        await clock.sleep(_PAUSES[min(tries, len(_PAUSES) - 1)])
        tries += 1


def _assigned_node(found: dict[str, Any], uid: str) -> str:
    metadata, spec = found.get("metadata") or {}, found.get("spec") or {}
    return str(spec.get("nodeName") or "") if metadata.get("uid") == uid else ""
