"""Limits on the length of texts that tenants determine: notes of Events, messages of conditions, fields of logs."""

from __future__ import annotations

from typing import Final

from pyscheduler.texts import encodable

MAX_MESSAGE: Final = 32768
"""Maximum bytes of a condition's message (`maxLength` of metav1.Condition)."""
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
