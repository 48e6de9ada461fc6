"""The short form of the chaos run in tests/tasks/chaos.py; `make tasks-chaos` is the long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.plane import Plane
from tests.tasks.chaos import ChaosSettings, chaos

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]
SHORT = ChaosSettings(
    tasks=300,
    kills=2,
    max_pods=100,
    nodes=8,
    timeout=600.0,
    disk_full_seconds=8.0,
    doomed_tasks=8,
    silence_interval=(1.0, 4.0),
)


async def test_repeatedly_killed_backend_loses_and_duplicates_no_task(
    control_plane: Plane, namespace: str, tmp_path: Path
) -> None:
    wrong, figures = await chaos(control_plane, namespace, SHORT, tmp_path)
    assert wrong == [], figures
    assert figures["killed"] == 2
    assert figures["expired"] == 2
    for fault in ("watchesDropped", "watchesSilenced", "podsDeletedByOthers", "labelsRemoved", "failedCommits"):
        assert figures[fault] > 0, fault
