"""Another configuration between two attempts: who waits is tried by it, who is on the way gets there by the old one.

Everything that is known of the cluster stays. An assumed pod keeps the profile that chose its node, so that its binding
cycle, or giving its place back, is done by the very plugins that have reserved something for it. Only a pod that
is parked by a plugin which is no more, or has begun anew, is called back: nobody would let it go. An attempt that waits
for extenders is made anew.

Profiles may come and go. The pods of one that goes leave the queue and are somebody else's; those that nobody here was
to schedule so far are found among all pods when a profile of their scheduler name comes.
"""

from __future__ import annotations

from msgspec.structs import replace

from pyscheduler.core import event_handlers
from pyscheduler.core.context import Context, queue_profiles
from pyscheduler.core.events import Reconfigured
from pyscheduler.core.queue import Backoff

CALLED_BACK = "the scheduler's configuration has changed"


def reconfigure(context: Context, event: Reconfigured) -> None:
    """Decide by the profiles of the event from now on, and ask its extenders."""
    initial, most = event.initial_backoff, event.max_backoff
    before = context.profiles.keys()
    context.settings = replace(context.settings, initial_backoff=initial, max_backoff=most, extenders=event.extenders)
    context.use_profiles(event.profiles)
    if context.suspended is not None:
        context.suspended.outdated = True
    context.queue.reconfigure(queue_profiles(event.profiles, context.settings), Backoff(initial, most), event.at)
    _call_back(context)
    event_handlers.adopt(context, context.profiles.keys() - before)


def _call_back(context: Context) -> None:
    for uid, waiting in context.handle.waiting.items():
        before = context.assumed[uid].profile
        after = context.profiles.get(before.name)
        still = {id(plugin) for plugin in after.permit} if after is not None else set()
        gone = [p.name for p in before.permit if p.name in waiting.deadlines and id(p) not in still]
        if gone and not waiting.rejected_by:
            waiting.preempt(gone[0], CALLED_BACK)
