"""Sets of completion indexes in batch/v1 notation: `0-2,5`."""

from __future__ import annotations

from collections.abc import Iterable

from pyscheduler.kube.numbers import natural


def compress(indexes: Iterable[int]) -> str:
    """Format indexes in order; three or more in a row are written as first-last."""
    runs: list[list[int]] = []
    for index in sorted(set(indexes)):
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(a) if a == b else f"{a}-{b}" if b - a > 1 else f"{a},{b}" for a, b in runs)


def expand(text: str, completions: int) -> set[int]:
    """Return the indexes below `completions` in `text`. Malformed parts are ignored, as in Kubernetes."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        low, high = natural(first), natural(last or first)
        if low is not None and high is not None:
            found.update(range(low, min(high + 1, completions)))
    return found
