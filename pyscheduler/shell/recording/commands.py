"""Commands as they are recorded: with UIDs and texts instead of objects.

Each is an array whose first item is the tag; the order of the fields is part of the format.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pyscheduler.core import commands as c
from pyscheduler.core.extenders.extender import PreemptCall


class RecordedPodCommand(msgspec.Struct, frozen=True, array_like=True):
    """A command about a pod."""

    uid: str
    """UID of the pod."""


class RecordedBind(RecordedPodCommand, frozen=True, array_like=True, tag="bind"):
    """Bind."""

    node: str
    attempt: int
    """Number of the attempt that chose the node."""
    now: float
    """Time of that attempt, on the machine's clock."""


class RecordedCancelBinding(RecordedPodCommand, frozen=True, array_like=True, tag="cancel"):
    """CancelBinding."""


class RecordedPatchStatus(RecordedPodCommand, frozen=True, array_like=True, tag="patch"):
    """PatchStatus; `reason` is "" if the condition is left unchanged."""

    reason: str
    message: str
    nominated: str | None
    """Nominated node; "" clears it, None leaves it unchanged."""


class RecordedPatchPodGroup(msgspec.Struct, frozen=True, array_like=True, tag="podgroup"):
    """PatchPodGroup."""

    namespace: str
    name: str
    uid: str
    condition: str
    """Type of the condition."""
    status: str
    reason: str
    message: str


class RecordedEvict(RecordedPodCommand, frozen=True, array_like=True, tag="evict"):
    """Evict; the pod is the victim."""

    preemptor: str
    """UID of the pod for which it is evicted."""
    message: str
    plugin: str
    note: str
    """Note of the Event; "" without one."""


class RecordedEventNote(RecordedPodCommand, frozen=True, array_like=True, tag="record"):
    """Record: an Event about the pod."""

    reason: str
    note: str
    event_type: str
    action: str
    related: str
    """UID of the related pod; "" without one."""


class RecordedGetPod(RecordedPodCommand, frozen=True, array_like=True, tag="get"):
    """GetPod."""


class RecordedExtenderCall(msgspec.Struct, frozen=True, array_like=True):
    """One call of CallExtenders."""

    call: str
    """Class of the call."""
    url: str
    nodes: int
    """Number of nodes that the extender gets."""
    checksum: int
    """CRC-32 of their names."""


class RecordedCallExtenders(RecordedPodCommand, frozen=True, array_like=True, tag="extenders"):
    """CallExtenders."""

    id: int
    calls: tuple[RecordedExtenderCall, ...]


class RecordedCallApi(msgspec.Struct, frozen=True, array_like=True, tag="api"):
    """CallApi."""

    plugin: str
    retries: bool


RecordedCommand = (
    RecordedBind
    | RecordedCancelBinding
    | RecordedPatchStatus
    | RecordedPatchPodGroup
    | RecordedEvict
    | RecordedEventNote
    | RecordedGetPod
    | RecordedCallExtenders
    | RecordedCallApi
)


def record_commands(commands: Sequence[c.Command]) -> list[RecordedCommand]:
    """Return commands in the form that a recording has."""
    return [_FORMS[type(command)](command) for command in commands]


def command_name(command: RecordedCommand) -> str:
    """Return the name of a recorded command."""
    return str(command.__struct_config__.tag)


def _bind(command: c.Bind) -> RecordedBind:
    return RecordedBind(command.pod.uid, command.node_name, command.cycle.attempt, command.cycle.now)


def _patch_status(command: c.PatchStatus) -> RecordedPatchStatus:
    condition = command.condition
    reason, message = ("", "") if condition is None else (condition.reason, condition.message)
    return RecordedPatchStatus(command.pod.uid, reason, message, command.nominated_node_name)


def _patch_pod_group(command: c.PatchPodGroup) -> RecordedPatchPodGroup:
    condition = command.type, command.status, command.reason, command.message
    return RecordedPatchPodGroup(command.namespace, command.name, command.uid, *condition)


def _evict(command: c.Evict) -> RecordedEvict:
    note = command.then.note if command.then is not None else ""
    return RecordedEvict(command.victim.uid, command.preemptor.uid, command.message, command.plugin, note)


def _event_note(command: c.Record) -> RecordedEventNote:
    related = command.related.uid if command.related is not None else ""
    texts = command.reason, command.note, command.type.value, command.action
    return RecordedEventNote(command.regarding.uid, *texts, related)


def _call_extenders(command: c.CallExtenders) -> RecordedCallExtenders:
    calls = []
    for call in command.calls:
        names = call.candidates if isinstance(call, PreemptCall) else call.nodes
        checksum = zlib.crc32("\n".join(names).encode())
        calls.append(RecordedExtenderCall(type(call).__name__, call.extender.url, len(names), checksum))
    return RecordedCallExtenders(command.pod.uid, command.id, tuple(calls))


_FORMS: Final[Mapping[type[Any], Callable[[Any], RecordedCommand]]] = {
    c.Bind: _bind,
    c.CancelBinding: lambda command: RecordedCancelBinding(command.uid),
    c.PatchStatus: _patch_status,
    c.PatchPodGroup: _patch_pod_group,
    c.Evict: _evict,
    c.Record: _event_note,
    c.GetPod: lambda command: RecordedGetPod(command.pod.uid),
    c.CallExtenders: _call_extenders,
    c.CallApi: lambda command: RecordedCallApi(command.plugin, command.retries),
}
"""Functions that return a command of a class as it is recorded."""
