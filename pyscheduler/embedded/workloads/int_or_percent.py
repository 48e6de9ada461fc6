"""IntOrString: a number of pods, or a share of them."""

from __future__ import annotations

from pyscheduler.kube.numbers import natural


def scale_int_or_percent(value: int | str, total: int, *, round_up: bool) -> int:
    """`3` is 3; `"25%"` is a quarter of `total`, rounded as told. What cannot be read counts as 0."""
    if isinstance(value, int):
        return max(0, value)
    percent = natural(value[:-1]) if value.endswith("%") else None
    hundredths = (percent or 0) * total
    return -(-hundredths // 100) if round_up else hundredths // 100
