"""Floods and bursts, at a size that takes seconds; `make hostile` goes through them at full size."""

from __future__ import annotations

import pytest

from tests.hostile import scale

pytestmark = pytest.mark.slow


def test_a_flood_of_shapes_fills_no_table_without_end() -> None:
    scale.check_flood(scale.flood(8_000))


@pytest.mark.parametrize("fits", [True, False], ids=["fits", "hopeless"])
def test_a_burst_of_one_tenant_leaves_its_neighbours_their_turn(fits: bool) -> None:
    scale.check_burst(scale.burst(4_000, fits))
