"""Placements that searches make for the members of groups."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.pod_groups.placement import PlacementSearch
from pyscheduler.core.scheduling.failure import Failure


def count_placements(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Count the placements from now on; the result returns their number."""
    placements = 0
    place = PlacementSearch.place

    def counted(self: PlacementSearch, queued: QueuedPod, row: int | None = None) -> Failure | None:
        nonlocal placements
        placements += 1
        return place(self, queued, row)

    monkeypatch.setattr(PlacementSearch, "place", counted)
    return lambda: placements
