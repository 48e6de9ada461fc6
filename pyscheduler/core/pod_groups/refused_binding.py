"""Pod groups of which the API server refuses a binding again and again, for example by an admission policy.

The refused member keeps its room by a nomination. The members that are bound are of no use without it. So after some
refusals they are evicted, and from then on the refused member is bound first: the others keep their room by
nominations, but no group is partly bound again.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import PodGroup
from pyscheduler.core.commands import Command, EventType, Evict, Record
from pyscheduler.core.context import AssumedPod, Context
from pyscheduler.core.preemption.executor import clear_nominations
from pyscheduler.core.scheduling.failure import Failure

MOST_REFUSALS = 5
"""Number of consecutive failed bindings of a member after which the group gives its room back: after half a minute."""


def refused_before(placed: Sequence[AssumedPod]) -> AssumedPod | None:
    """Return the member with too many failed bindings, or None."""
    return next((assumed for assumed in placed if assumed.queued.error_count >= MOST_REFUSALS), None)


def hold_room(context: Context, assumed: AssumedPod, failure: Failure) -> Failure:
    """Return the failure of a binding, with a nomination to the node if members are bound that need the pod.

    Other pods would take the room before the next attempt otherwise, and the rest of the group would stay bound.
    """
    key = context.groups.key_of(assumed.pod)
    group = None if key is None else context.groups.requirements(key)
    if not isinstance(group, PodGroup) or not context.groups.shortage(group, ()):
        return failure
    if not context.groups[group.key].started_count:
        return failure
    return msgspec.structs.replace(failure, nominate=assumed.node_name, in_memory=True)


def give_back_room(context: Context, pod: Pod, refusals: int, message: str, now: float) -> list[Command]:
    """Return the commands that free the room of a group without its minimum, after failed bindings of a member."""
    key = context.groups.key_of(pod)
    group = None if key is None else context.groups.requirements(key)
    if refusals < MOST_REFUSALS or not isinstance(group, PodGroup) or not context.groups.shortage(group, ()):
        return []
    members = context.groups[group.key].pods
    commands = clear_nominations(context, list(members.values()), now)
    why = f"the binding of {pod.name} was refused {refusals} times: {message}"
    text = f"pod group {group.key} gives its room back: {why}"
    for victim in members.values():
        if victim.node_name:
            then = Record(EventType.NORMAL, "PodGroupIncomplete", "Evicting", text, victim, pod)
            commands.append(Evict(victim, pod, text, then))
    return commands
