"""Records of a recording: one for each call of the machine and for each step of a PreBind plugin, in their order."""

from __future__ import annotations

import enum
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import msgspec
from msgspec.structs import asdict, astuple

from pyscheduler.api.events import ResourceKind
from pyscheduler.api.objects import NodeObject, PodObject
from pyscheduler.core import commands as c
from pyscheduler.core import events as e
from pyscheduler.core.extenders.extender import (
    ExtenderCallFailed,
    ExtenderFilterResult,
    ExtenderPreemptionResult,
    ExtenderPrioritizeResult,
    PreemptCall,
)

Plain = list[Any]


class Kind(enum.IntEnum):
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


class RecordedCall(msgspec.Struct, frozen=True, array_like=True, gc=False):
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
        if self.kind == Kind.CYCLE:
            return msgspec.msgpack.decode(self.payload, type=float)
        return time_of_event(self.payload) if self.kind == Kind.EVENT else None


Entry = tuple[Kind, Any, Any, tuple[float, ...]]
"""A record before it is encoded: payload and result are the event and the commands themselves."""


class RecordedPod(msgspec.Struct, frozen=True, gc=False):
    """Name and UID of a pod in an event."""

    name: str = ""
    namespace: str = ""
    uid: str = ""


_EVENTS: Final[tuple[type[e.Event], ...]] = (
    e.PodChanged,
    e.PodFound,
    e.PodGone,
    e.SucceededPodGone,
    e.NodeChanged,
    e.NodeGone,
    e.ObjectChanged,
    e.ObjectGone,
    e.Bound,
    e.BindFailed,
    e.EvictFailed,
    e.Reconfigured,
    e.ExtendersResponded,
    e.Tick,
)
"""Classes of events; the index of each is part of the format."""
_TAGS: Final = {cls: tag for tag, cls in enumerate(_EVENTS)}
_RESULTS: Final[Mapping[str, type[Any]]] = {
    "filter": ExtenderFilterResult,
    "prioritize": ExtenderPrioritizeResult,
    "preempt": ExtenderPreemptionResult,
    "failed": ExtenderCallFailed,
}
_RESULT_NAMES: Final = {cls: name for name, cls in _RESULTS.items()}
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(list[RecordedCall])


def encode_batch(entries: Sequence[Entry]) -> bytes:
    """Return the records of the entries, encoded."""
    return _encoder.encode([_plain(*entry) for entry in entries])


def decode_batch(data: bytes) -> list[RecordedCall]:
    """Return the records of a batch. msgspec.DecodeError."""
    return _decoder.decode(data)


def _plain(kind: Kind, payload: Any, result: Any, readings: tuple[float, ...]) -> Plain:
    if kind is Kind.EVENT:
        payload = _plain_event(payload)
    plain = [kind.value, payload, plain_result(result)]
    return [*plain, readings] if readings else plain


def plain_result(result: Any) -> Any:
    """Return the result of a call in the form that a recording has."""
    return [_PLAIN_COMMANDS[type(command)](command) for command in result] if isinstance(result, list) else result


def encoded_result(result: Any) -> bytes:
    """Return the result of a call as it is in a recording."""
    return _encoder.encode(plain_result(result))


# -- events ------------------------------------------------------------------------------------------------------------


def _plain_event(event: e.Event) -> Plain:
    tag = _TAGS[type(event)]
    if isinstance(event, e.Reconfigured):  # its profiles are those of the REBUILD before
        return [tag, event.at, event.initial_backoff, event.max_backoff]
    if isinstance(event, e.ExtendersResponded):
        return [tag, event.at, event.id, [(_RESULT_NAMES[type(each)], asdict(each)) for each in event.results]]
    return [tag, *astuple(event)]


def event_class(payload: msgspec.Raw) -> type[e.Event]:
    """Return the class of an event."""
    return _EVENTS[_head.decode(payload).tag]


def decode_event(payload: msgspec.Raw) -> e.Event:
    """Return the event of a record; of a Reconfigured without profiles and extenders."""
    cls: Any = event_class(payload)
    if cls in _OBJECTS:
        _, at, obj = _OBJECTS[cls].decode(payload)
        return cast(e.Event, cls(at, obj))
    _, *fields = _any.decode(payload)
    if cls is e.Reconfigured:
        at, initial, maximum = fields
        return e.Reconfigured(at, (), initial, maximum)
    if cls is e.ExtendersResponded:
        at, number, results = fields
        return e.ExtendersResponded(at, number, tuple(msgspec.convert(each, _RESULTS[name]) for name, each in results))
    if cls in (e.ObjectChanged, e.ObjectGone):
        at, kind, *rest = fields
        fields = [at, msgspec.convert(kind, ResourceKind), *rest]
    return cast(e.Event, cls(*fields))


_any: Final = msgspec.msgpack.Decoder()
_OBJECTS: Final[Mapping[type[e.Event], Any]] = {
    e.PodChanged: msgspec.msgpack.Decoder(tuple[int, float, PodObject]),
    e.PodFound: msgspec.msgpack.Decoder(tuple[int, float, PodObject]),
    e.NodeChanged: msgspec.msgpack.Decoder(tuple[int, float, NodeObject]),
}


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


def pod_of_event(payload: msgspec.Raw) -> RecordedPod | None:
    """Return the pod that an event shows; None for other events."""
    if event_class(payload) not in (e.PodChanged, e.PodFound):
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
