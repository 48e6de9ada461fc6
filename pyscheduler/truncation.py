"""Limits on the length of texts that tenants determine: Events, messages of conditions, fields of logs."""

from __future__ import annotations

from typing import Final

from pyscheduler.texts import encodable

MAX_MESSAGE: Final = 32768
"""Maximum bytes of a condition's message (`maxLength` of metav1.Condition)."""
MAX_NOTE: Final = 1024
"""Maximum bytes of the note of an Event."""
_MAX_NAME: Final = 253
_CUT: Final = " ..."


def truncated(text: str, limit: int) -> str:
    """Return the text in encodable form, truncated to `limit` bytes at a character boundary with " ..." at the end."""
    text = encodable(text)
    if len(text) <= limit // 4:  # a character has at most 4 bytes
        return text
    data = text.encode()
    if len(data) <= limit:
        return text
    return data[: limit - len(_CUT)].decode(errors="ignore") + _CUT


def event_name(about: str, nanoseconds: int) -> str:
    """Return the name of an Event about an object, `<name>.<hex>`, truncated to the length of a name."""
    suffix = f".{nanoseconds:x}"
    return about[: _MAX_NAME - len(suffix)].rstrip(".-") + suffix
