"""Decoder of a protobuf-encoded Kubernetes object into the dict of its JSON form.

The envelope is runtime.Unknown behind the four bytes `k8s\\0`. Zero values that Go writes for fields without a pointer
are dropped, as `omitempty` drops them from JSON.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from typing import Any

from pyscheduler.embedded.objects import Json, timestamp
from pyscheduler.embedded.status import bad_request, unsupported_media_type
from pyscheduler.embedded.wire.table import MessageField, message_name, messages

MAGIC = b"k8s\x00"


class _Malformed(ValueError):
    pass


def decode_object(raw: bytes) -> Json:
    """Return the object in `raw`. ApiError 400 if it is malformed, 415 if its kind is not in the table."""
    try:
        envelope = _by_number(raw.removeprefix(MAGIC))
        head = _by_number(envelope.get(1, b""))
        api_version, kind = head.get(1, b"").decode(), head.get(2, b"").decode()
        name = message_name(api_version, kind)
        if not name:
            raise unsupported_media_type(["application/json", "application/yaml"])
        return {"apiVersion": api_version, "kind": kind, **_message(envelope.get(2, b""), name)}
    except (_Malformed, UnicodeDecodeError, AttributeError, IndexError, struct.error) as error:
        raise bad_request(f"the body of the request is not a protobuf object: {error}") from None


def _by_number(raw: bytes) -> dict[int, Any]:
    return dict(read_fields(raw))


def read_fields(raw: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a message: ints for numbers, bytes for everything else."""
    position, end = 0, len(raw)
    while position < end:
        tag, position = _varint(raw, position)
        match tag & 7:
            case 0:
                value, position = _varint(raw, position)
                yield tag >> 3, value
            case 1:
                yield tag >> 3, raw[position : position + 8]
                position += 8
            case 2:
                length, position = _varint(raw, position)
                if position + length > end:
                    raise _Malformed("the message is truncated")
                yield tag >> 3, raw[position : position + length]
                position += length
            case 5:
                yield tag >> 3, raw[position : position + 4]
                position += 4
            case other:
                raise _Malformed(f"unknown wire type {other}")


def _varint(raw: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise _Malformed("a varint is too long")


def _message(raw: bytes, name: str) -> Json:
    fields, result = messages()[name], Json()
    for number, value in read_fields(raw):
        field = fields.get(number)
        if field is None:
            continue
        if field.shape == "[":
            result.setdefault(field.name, []).append(_value(value, field))
        elif field.shape == "{":
            key, item = _entry(value, field)
            result.setdefault(field.name, {})[key] = item
        else:
            found = _value(value, field)
            if not field.name:
                result |= found
            elif _is_set(found, field):
                result[field.name] = found
    return result


def _is_set(value: Any, field: MessageField) -> bool:
    """Return False for a zero value that Go writes because a field without a pointer has no "not set"."""
    if value is None:
        return False
    return field.pointer or not (value == "" or value is False or value == {} or (value == 0 and field.kind == "i"))


def _entry(raw: bytes, field: MessageField) -> tuple[str, Any]:
    pair = _by_number(raw)
    empty: Any = b"" if field.kind not in "ib" else 0
    return pair.get(1, b"").decode(), _value(pair.get(2, empty), field)


def _value(value: Any, field: MessageField) -> Any:
    match field.kind:
        case "s":
            return value.decode()
        case "i":
            return _signed(value)
        case "b":
            return bool(value)
        case "m":
            return _message(value, field.message)
        case "y":
            return base64.b64encode(value).decode()
        case "d":
            return struct.unpack("<d", value)[0]
    return _special(value, field.kind)


def _signed(value: int) -> int:
    """Return an int64 from its two's complement."""
    return value - (1 << 64) if value >= 1 << 63 else value


def _special(raw: bytes, kind: str) -> Any:
    if kind == "e":
        return [item.decode() for _, item in read_fields(raw)]
    parts = _by_number(raw)
    if kind == "q":
        return parts.get(1, b"").decode()
    if kind == "x":
        return parts.get(3, b"").decode() if parts.get(1) else parts.get(2, 0)
    if kind == "r":
        try:
            return json.loads(parts.get(1, b"null"))
        except ValueError:
            raise _Malformed("raw data is not JSON") from None
    return _time(parts)


def _time(parts: dict[int, Any]) -> str | None:
    """Return a time, None for Go's zero time. Only MicroTime has fractions."""
    if not parts:
        return None
    text, nanos = timestamp(_signed(parts.get(1, 0))), parts.get(2, 0)
    return f"{text[:-1]}.{nanos // 1000:06d}Z" if nanos else text
