"""Switch to a new configuration between two attempts.

The cluster state stays. Pending pods are scheduled by the new profiles. An assumed pod keeps the profile that chose its
node, so that its binding cycle or Unreserve runs in the plugins that reserved something for it. Only a pod that waits
for a Permit plugin which was removed or rebuilt is rejected, since that plugin would never allow it. A suspended
attempt starts over.

Profiles may be added and removed. The pods of a removed profile leave the queue; the pods of an added one are found
among all pods.
"""

from __future__ import annotations

from msgspec.structs import replace

from pyscheduler.core import event_handlers
from pyscheduler.core.context import Context, queue_profiles
from pyscheduler.core.events import Reconfigured
from pyscheduler.core.queue import Backoff

CONFIGURATION_CHANGED = "the scheduler's configuration has changed"


def reconfigure(context: Context, event: Reconfigured) -> None:
    """Apply the profiles, extenders and backoffs of the event."""
    initial, maximum = event.initial_backoff, event.max_backoff
    before = frozenset(context.profiles)
    context.settings = replace(
        context.settings, initial_backoff=initial, max_backoff=maximum, extenders=event.extenders
    )
    context.use_profiles(event.profiles)
    if context.suspended is not None:
        context.suspended.is_stale = True
    context.queue.reconfigure(queue_profiles(event.profiles, context.settings), Backoff(initial, maximum), event.at)
    _reject_waiting_pods(context)
    event_handlers.adopt(context, context.profiles.keys() - before)


def _reject_waiting_pods(context: Context) -> None:
    for uid, waiting in context.handle.waiting_pods.by_uid.items():
        before = context.assumed[uid].profile
        after = context.profiles.get(before.name)
        current = {id(plugin) for plugin in after.permit} if after is not None else set()
        removed = [p.name for p in before.permit if p.name in waiting.deadlines and id(p) not in current]
        if removed and not waiting.rejected_by:
            waiting.preempt(removed[0], CONFIGURATION_CHANGED)
