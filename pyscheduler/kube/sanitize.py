"""Make JSON decodable that exceeds decoder limits: deep nesting, lone surrogates.

An API server accepts objects with up to 10,000 levels where no schema forbids it: in custom resources and in the
managedFields of any object, including tenants' pods. One of them would make a whole list undecodable.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

MOST: Final = 200
"""Levels; Kubernetes' own objects have fewer than 40."""
PLACEHOLDER: Final = b'"(nested too deep)"'
"""Replacement of deeper values."""
_QUOTE, _OPEN, _CLOSE = ord('"'), b"{[", b"}]"
_ESCAPE = re.compile(rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<half>\\u[dD][89a-fA-F]..)|\\.", re.DOTALL)


def sanitize(text: bytes) -> bytes:
    """Return `text` with values below MOST levels replaced, and U+FFFD for lone surrogates, as in Go."""
    return _shallow(_ESCAPE.sub(_whole, text) if rb"\ud" in text.lower() else text)


def _whole(escape: re.Match[bytes]) -> bytes:
    return rb"\ufffd" if escape["half"] else escape[0]


def _shallow(text: bytes) -> bytes:
    """Replace deep values; fast enough for pages of many megabytes, because any tenant can create such objects."""
    plain = np.frombuffer(text.replace(rb"\\", b"__").replace(rb"\"", b"__"), np.uint8)
    outside = np.cumsum(plain == _QUOTE, dtype=np.uint8) & 1 == 0
    opens, closes = ((plain == a) | (plain == b) for a, b in (_OPEN, _CLOSE))
    depth = np.cumsum((opens & outside).view(np.int8) - (closes & outside).view(np.int8), dtype=np.int32)
    edges = np.flatnonzero(np.diff(depth > MOST, prepend=False))
    if len(edges) % 2:
        return text  # unbalanced
    kept, end = [], 0
    for first, last in edges.reshape(-1, 2).tolist():
        kept += [text[end:first], PLACEHOLDER]
        end = last + 1
    return b"".join([*kept, text[end:]])
