"""Records of a recording: one for each call of the machine and for each step of a PreBind plugin, in their order."""

from __future__ import annotations

import enum
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import astuple

from pyscheduler.core import commands as c
from pyscheduler.core import events as e
from pyscheduler.core.extenders.extender import PreemptCall

Plain = list[Any]


class RecordKind(enum.IntEnum):
    """RecordKind of a record; the payload is in brackets."""

    EVENT = 0
    """`Machine.handle` (the event)."""
    CYCLE = 1
    """`Machine.cycle` (its time)."""
    HOLD_REPORTS = 2
    RELEASE_REPORTS = 3
    TOPOLOGY = 4
    """`Machine.build_topology_column` (the key)."""
    REBUILD = 5
    """Profiles were built from a changed configuration (its text), which a Reconfigured follows if it is valid."""
    PRE_BIND = 6
    """A PreBind plugin was called (UID of the pod, index of the plugin)."""
    RESPONSE = 7
    """An API call of a PreBind plugin returned (UID of the pod, result)."""
    FAILURE = 8
    """An API call of a PreBind plugin raised (UID of the pod, class, status, reason, message)."""
    TIMESTAMP = 9
    """A PreBind plugin has read the time (UID of the pod, time)."""


class RecordedInput(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One record as it is read from a file."""

    kind: int
    payload: msgspec.Raw
    result: msgspec.Raw
    """Commands that the call returned, None if it returned None, or the text of the exception that it raised."""
    readings: tuple[float, ...] = ()
    """Times that the attempt of a large pod has read from the clock, which limits it."""

    @property
    def time(self) -> float | None:
        """Time of the call on the machine's clock; None if it has none."""
        if self.kind == RecordKind.CYCLE:
            return msgspec.msgpack.decode(self.payload, type=float)
        return time_of_event(self.payload) if self.kind == RecordKind.EVENT else None


UnencodedRecord = tuple[RecordKind, Any, Any, tuple[float, ...]]
"""A record before it is encoded: payload and result are the event and the commands themselves."""


class RecordedPod(msgspec.Struct, frozen=True, gc=False):
    """Name and UID of a pod in an event."""

    name: str = ""
    namespace: str = ""
    uid: str = ""


class RecordedReconfigured(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """Reconfigured without profiles and extenders: those are built from the configuration of the REBUILD before."""

    at: float
    initial_backoff: float
    max_backoff: float


RecordedEvent = (
    e.PodChanged
    | e.PodFound
    | e.PodGone
    | e.SucceededPodGone
    | e.NodeChanged
    | e.NodeGone
    | e.ObjectChanged
    | e.ObjectGone
    | e.Bound
    | e.BindFailed
    | e.EvictFailed
    | RecordedReconfigured
    | e.ExtendersResponded
    | e.Tick
)
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(list[RecordedInput])


def encode_batch(entries: Sequence[UnencodedRecord]) -> bytes:
    """Return the records of the entries, encoded."""
    # Most events cause no command: such entries are encoded as they are.
    return _encoder.encode(
        [_plain(entry) if entry[2] or type(entry[1]) is e.Reconfigured else entry for entry in entries]
    )


def decode_batch(data: bytes) -> list[RecordedInput]:
    """Return the records of a batch. msgspec.DecodeError."""
    return _decoder.decode(data)


def _plain(entry: UnencodedRecord) -> UnencodedRecord:
    """Return an entry that msgspec can encode."""
    kind, payload, result, readings = entry
    if type(payload) is e.Reconfigured:
        payload = RecordedReconfigured(payload.at, payload.initial_backoff, payload.max_backoff)
    return kind, payload, plain_commands(result) if isinstance(result, list) else result, readings


def plain_commands(commands: Sequence[c.Command]) -> list[Plain]:
    """Return commands in the form that a recording has."""
    return [_PLAIN_COMMANDS[type(command)](command) for command in commands]


def encode_result(result: Any) -> bytes:
    """Return the result of a call as it is in a recording."""
    return _encoder.encode(plain_commands(result) if isinstance(result, list) else result)


# -- events ------------------------------------------------------------------------------------------------------------


def decode_event(payload: msgspec.Raw) -> RecordedEvent:
    """Return the event of a record."""
    return _event.decode(payload)


_event: Final[msgspec.msgpack.Decoder[RecordedEvent]] = msgspec.msgpack.Decoder(RecordedEvent)


class _Metadata(msgspec.Struct, frozen=True):
    metadata: RecordedPod


class _Head(msgspec.Struct, frozen=True, array_like=True):
    """First fields of every event."""

    tag: int
    at: float


class _PodHead(_Head, frozen=True, array_like=True):
    object: _Metadata


_head: Final = msgspec.msgpack.Decoder(_Head)
_pod_head: Final = msgspec.msgpack.Decoder(_PodHead)


_POD_TAGS: Final = tuple(cls.__struct_config__.tag for cls in (e.PodChanged, e.PodFound))


def pod_of_event(payload: msgspec.Raw) -> RecordedPod | None:
    """Return the pod that an event shows; None for other events."""
    if _head.decode(payload).tag not in _POD_TAGS:
        return None
    return _pod_head.decode(payload).object.metadata


def time_of_event(payload: msgspec.Raw) -> float:
    """Return the time of an event, in seconds of the machine's clock."""
    return _head.decode(payload).at


# -- commands ----------------------------------------------------------------------------------------------------------


def _bind(command: c.Bind) -> Plain:
    return ["bind", command.pod.uid, command.node_name, command.cycle.attempt, command.cycle.now]


def _patch(command: c.PatchStatus) -> Plain:
    condition = command.condition
    reason, message = ("", "") if condition is None else (condition.reason, condition.message)
    return ["patch", command.pod.uid, reason, message, command.nominated_node_name]


def _record(command: c.Record) -> Plain:
    related = command.related.uid if command.related is not None else ""
    return ["record", command.regarding.uid, command.reason, command.note, command.type.value, command.action, related]


def _evict(command: c.Evict) -> Plain:
    note = command.then.note if command.then is not None else ""
    return ["evict", command.victim.uid, command.preemptor.uid, command.message, command.plugin, note]


def _call_extenders(command: c.CallExtenders) -> Plain:
    calls = []
    for call in command.calls:
        names = call.candidates if isinstance(call, PreemptCall) else call.nodes
        calls.append([type(call).__name__, call.extender.url, len(names), zlib.crc32("\n".join(names).encode())])
    return ["extenders", command.pod.uid, command.id, calls]


_PLAIN_COMMANDS: Final[Mapping[type[Any], Callable[[Any], Plain]]] = {
    c.Bind: _bind,
    c.CancelBinding: lambda command: ["cancel", command.uid],
    c.PatchStatus: _patch,
    c.PatchPodGroup: lambda command: ["podgroup", *astuple(command)[1:]],
    c.Record: _record,
    c.Evict: _evict,
    c.GetPod: lambda command: ["get", command.pod.uid],
    c.CallExtenders: _call_extenders,
    c.CallApi: lambda command: ["api", command.plugin, command.retries],
}
"""Functions that return a command as it is recorded: its kind, the UID of its pod, and what else was decided."""
