"""JSON that a reader with limits can read: nothing nested without end, no half of a surrogate pair.

An API server takes objects nested up to 10,000 levels deep, where no schema forbids it: in custom resources, and in the
managedFields of anything, pods of tenants included. One of them in a list would make the whole list unreadable.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

MOST: Final = 200
"""Levels; Kubernetes' own objects have less than 40."""
PLACEHOLDER: Final = b'"(nested too deep)"'
"""What stands in the place of anything deeper."""
_QUOTE, _OPEN, _CLOSE = ord('"'), b"{[", b"}]"
_ESCAPE = re.compile(rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<half>\\u[dD][89a-fA-F]..)|\\.", re.DOTALL)


def sanitize(text: bytes) -> bytes:
    """`text` with all that is deeper than MOST levels left out, and U+FFFD for halves of pairs, as Go reads them."""
    return _shallow(_ESCAPE.sub(_whole, text) if rb"\ud" in text.lower() else text)


def _whole(escape: re.Match[bytes]) -> bytes:
    return rb"\ufffd" if escape["half"] else escape[0]


def _shallow(text: bytes) -> bytes:
    """For a page of many megabytes, too: whoever sends such objects must not have others wait for a slow reader."""
    plain = np.frombuffer(text.replace(rb"\\", b"__").replace(rb"\"", b"__"), np.uint8)
    outside = np.cumsum(plain == _QUOTE, dtype=np.uint8) & 1 == 0
    opens, closes = ((plain == a) | (plain == b) for a, b in (_OPEN, _CLOSE))
    depth = np.cumsum((opens & outside).view(np.int8) - (closes & outside).view(np.int8), dtype=np.int32)
    edges = np.flatnonzero(np.diff(depth > MOST, prepend=False))
    if len(edges) % 2:
        return text  # it does not even end
    kept, end = [], 0
    for first, last in edges.reshape(-1, 2).tolist():
        kept += [text[end:first], PLACEHOLDER]
        end = last + 1
    return b"".join([*kept, text[end:]])
