"""Floods and bursts at a size that takes seconds; `make hostile` runs them at full size."""

from __future__ import annotations

import pytest

from pyscheduler.cli.progress_bar import ProgressBar
from tests.hostile import scale

PROGRESS = ProgressBar("hostile", lines=False)
pytestmark = pytest.mark.slow


def test_flood_of_signatures_leaves_tables_bounded() -> None:
    scale.check_flood(scale.flood(8_000, PROGRESS))


@pytest.mark.parametrize("fits", [True, False], ids=["fits", "unschedulable"])
def test_burst_of_one_tenant_does_not_starve_others(fits: bool) -> None:
    scale.check_burst(scale.burst(4_000, fits, PROGRESS))
