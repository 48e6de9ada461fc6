"""IntOrString: a number of pods, or a percentage of them."""

from __future__ import annotations

from pyscheduler.kube.numbers import natural


def scale_int_or_percent(value: int | str, total: int, *, round_up: bool) -> int:
    """Return `3` for 3 and a quarter of `total` for `"25%"`, rounded up or down. Malformed values count as 0."""
    if isinstance(value, int):
        return max(0, value)
    percent = natural(value[:-1]) if value.endswith("%") else None
    hundredths = (percent or 0) * total
    return -(-hundredths // 100) if round_up else hundredths // 100
