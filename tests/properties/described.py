"""Commands as text, so that the commands of two machines can be compared."""

from __future__ import annotations

from pyscheduler.core.commands import (
    Bind,
    CallApi,
    CallExtenders,
    CancelBinding,
    Command,
    Evict,
    GetPod,
    PatchPodGroup,
    PatchStatus,
    Record,
)


def describe(command: Command) -> str:
    """Return everything of a command that the API server or an extender receives."""
    match command:
        case Bind():
            return f"bind {command.pod.uid} to {command.node_name}, attempt {command.cycle.attempt}"
        case CancelBinding():
            return f"cancel {command.uid}"
        case PatchStatus():
            return f"patch {command.pod.uid} {command.condition} {command.nominated_node_name}"
        case PatchPodGroup():
            return f"patch podgroup {command.name} {command.type} {command.status} {command.reason} {command.message}"
        case Evict():
            return f"evict {command.victim.uid} for {command.preemptor.uid}"
        case Record():
            return f"{command.reason} {command.regarding.uid} {command.note}"
        case GetPod():
            return f"get {command.pod.uid}"
        case CallExtenders():
            return f"call {len(command.calls)} extenders for {command.pod.uid}"
        case CallApi():
            return f"call the API for {command.plugin}"
