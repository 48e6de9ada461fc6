"""Records of a recording: one for each call of the machine and for each step of a PreBind plugin, in their order."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from pyscheduler.core import commands as c
from pyscheduler.core import events as e
from pyscheduler.shell.recording.commands import RecordedCommand, record_commands

Result = list[RecordedCommand] | str | None
"""Commands that a call returned, None if it returned None, or the text of the exception that it raised."""
_NONE: Final = msgspec.msgpack.encode(None)
_NO_COMMANDS: Final = _NONE, msgspec.msgpack.encode([])
_result: Final[msgspec.msgpack.Decoder[Result]] = msgspec.msgpack.Decoder(Result)


class RecordKind(enum.IntEnum):
    """Kind of a record; the payload is in brackets."""

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
    """One record as it is read from a file: an input of the machine or of a PreBind plugin, and its result."""

    kind: int
    payload: msgspec.Raw
    result: msgspec.Raw
    """A `Result`, which is decoded only where it is needed."""
    readings: tuple[float, ...] = ()
    """Times that the attempt of a large pod has read from the clock, which limits it."""

    @property
    def time(self) -> float | None:
        """Time of the call on the machine's clock; None if it has none."""
        if self.kind == RecordKind.CYCLE:
            return msgspec.msgpack.decode(self.payload, type=float)
        return time_of_event(self.payload) if self.kind == RecordKind.EVENT else None

    @property
    def returned_none(self) -> bool:
        """True if the call returned None, such as one of `cycle` that had nothing to do."""
        return bytes(self.result) == _NONE

    @property
    def commands(self) -> Sequence[RecordedCommand]:
        """Commands that the call returned; none if it raised an exception."""
        if bytes(self.result) in _NO_COMMANDS:  # most calls
            return ()
        result = _result.decode(self.result)
        return result if isinstance(result, list) else ()


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


def encode_batch(records: Sequence[UnencodedRecord]) -> bytes:
    """Return the records, encoded."""
    # Most events cause no command: such records are encoded as they are.
    return _encoder.encode(
        [_to_encodable(each) if each[2] or type(each[1]) is e.Reconfigured else each for each in records]
    )


def decode_batch(data: bytes) -> list[RecordedInput]:
    """Return the records of a batch. msgspec.DecodeError."""
    return _decoder.decode(data)


def _to_encodable(record: UnencodedRecord) -> UnencodedRecord:
    """Return a record that msgspec can encode."""
    kind, payload, result, readings = record
    if type(payload) is e.Reconfigured:
        payload = RecordedReconfigured(payload.at, payload.initial_backoff, payload.max_backoff)
    return kind, payload, record_commands(result) if isinstance(result, list) else result, readings


def encode_result(result: list[c.Command] | str | None) -> bytes:
    """Return the result of a call as it is in a recording."""
    return _encoder.encode(record_commands(result) if isinstance(result, list) else result)


def decode_result(data: msgspec.Raw | bytes) -> Result:
    """Return the recorded result of a call."""
    return _result.decode(data)


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
