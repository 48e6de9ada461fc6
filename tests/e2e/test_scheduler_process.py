"""The scheduler process that other tests start, in its own folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.plane import Plane
from tests.e2e.scheduler import Configured, scheduler

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a relative path."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path)
    return Path("work")


async def test_folder_may_be_a_relative_path(control_plane: Plane, namespace: str, work: Path) -> None:
    async with scheduler(control_plane, Configured(namespace), work) as running:
        assert await running.text(control_plane.api, "/readyz") == "ok"
