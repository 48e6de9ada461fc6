"""How hard the property tests search, in one place.

By default the examples are the same on every run, so that CI says today what it said yesterday. `PROPERTY_SCALE=20`
makes a hunt of it: that many times more examples, drawn afresh.
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
    """Settings for a property that needs so many examples to be convincing."""
    return settings(
        max_examples=examples * SCALE,
        derandomize=SCALE == 1,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def assert_caught(
    prove: Callable[[Any], None],
    drawn: SearchStrategy[Any],
    *by: type[BaseException],
    match: str | None = None,
    examples: int = 300,
) -> None:
    """Check a property over a planted bug and insist that it fails, with one of the errors `by` that says so."""
    # It is not shrunk: that it fails is enough.
    hunt = settings(quick(examples), derandomize=True, phases=[Phase.generate], report_multiple_bugs=False)
    with pytest.raises(by or AssertionError, match=match):
        hunt(given(drawn)(prove))()
