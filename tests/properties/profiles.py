"""The number of examples of property tests, in one place.

By default the examples are the same on every run, so that CI is reproducible. `PROPERTY_SCALE=20` draws that many times
more examples, different ones on each run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

SCALE = int(os.environ.get("PROPERTY_SCALE", "1"))


def quick(examples: int) -> settings:
    """Return settings for a property that needs this number of examples."""
    return settings(
        max_examples=examples * SCALE,
        derandomize=SCALE == 1,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def assert_caught(
    check: Callable[[Any], None],
    strategy: SearchStrategy[Any],
    *by: type[BaseException],
    match: str | None = None,
    examples: int = 300,
) -> None:
    """Check a property with a planted bug and require that it fails with one of the errors `by`."""
    # No shrinking: the failure itself is enough.
    search = settings(quick(examples), derandomize=True, phases=[Phase.generate], report_multiple_bugs=False)
    with pytest.raises(by or AssertionError, match=match):
        search(given(strategy)(check))()
