"""Times in messages: full minutes of UTC, so that small changes of an estimate do not change the message."""

from __future__ import annotations

import math
from datetime import UTC, datetime

_END = datetime(9999, 12, 31, tzinfo=UTC).timestamp()


def utc_minute(time: float) -> str:
    """Return the next full minute at or after a Unix time, such as 2026-11-30T09:05Z; "" if there is none."""
    if not 0 <= time < _END:
        return ""
    return datetime.fromtimestamp(60 * math.ceil(time / 60), UTC).strftime("%Y-%m-%dT%H:%MZ")
