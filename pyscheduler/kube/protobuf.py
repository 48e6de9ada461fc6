"""Protobuf's wire format, as far as Kubernetes' envelope, its Status and our encoders need it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyscheduler.kube.protobuf_fields import StatusDetailsFields, StatusFields, TypeMetaFields, UnknownFields

_MAGIC = b"k8s\x00"
"""Prefix of a message; a runtime.Unknown with the object follows."""
_TEXT = 2
"""Wire type of length-delimited fields: strings and messages."""
_SHORT = [bytes((n,)) for n in range(128)]
_LAST_SHIFT = 56
"""Shift of the last 7 bits of a varint that fits into 64 bits."""


def is_message(body: bytes) -> bool:
    """Return True if a response body is protobuf."""
    return body.startswith(_MAGIC)


def status(body: bytes) -> tuple[str, str, int]:
    """Return message, reason and details.retryAfterSeconds of a v1 Status. ValueError if it is not one."""
    try:
        content = dict(fields(raw(body)))
        details = dict(fields(content.get(StatusFields.DETAILS, b"")))
        message, reason = (content.get(field, b"").decode() for field in (StatusFields.MESSAGE, StatusFields.REASON))
        return message, reason, int(details.get(StatusDetailsFields.RETRY_AFTER_SECONDS, 0))
    except (IndexError, KeyError, TypeError, AttributeError) as problem:
        raise ValueError(f"not a Status: {problem!r}") from None


def raw(body: bytes) -> bytes:
    """Return the object in a message. KeyError or IndexError if there is none."""
    content: bytes = dict(fields(body[len(_MAGIC) :]))[UnknownFields.RAW]
    return content


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield each field's number and value: bytes or an int. KeyError or IndexError if it cannot be read."""
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        value, at = _read_varint(message, at)
        if tag & 7 == _TEXT:
            yield tag >> 3, message[at : at + value]
            at += value
        elif tag & 7 == 0:
            yield tag >> 3, value
        else:
            raise KeyError(tag)  # what is read here has no other wire types


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while (byte := message[at]) > 127:
        if shift > _LAST_SHIFT:
            raise KeyError(at)  # an endless varint would block the loop
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
    return value | byte << shift, at + 1


def text(field: int, value: str) -> bytes:
    """Encode a string field; nothing if it is empty."""
    return part(field, value.encode()) if value else b""


def part(field: int, content: bytes) -> bytes:
    """Encode a field of length-delimited content."""
    size = len(content)
    return _SHORT[field << 3 | _TEXT] + (_SHORT[size] if size < 128 else _varint(size)) + content


def number(field: int, value: int) -> bytes:
    """Encode an integer field."""
    return _SHORT[field << 3] + _varint(value)


def _varint(value: int) -> bytes:
    """Encode 7 bits per byte, lowest first; negative numbers (times before 1970) in two's complement."""
    encoded = bytearray()
    if value < 0:
        value += 1 << 64
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def head(api_version: str, kind: str) -> bytes:
    """Return the start of a message: prefix and TypeMeta; field 2, the object, follows."""
    return _MAGIC + part(
        UnknownFields.TYPE_META, text(TypeMetaFields.API_VERSION, api_version) + text(TypeMetaFields.KIND, kind)
    )
