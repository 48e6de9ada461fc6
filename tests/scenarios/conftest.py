"""Checks that every scenario runs under."""

from __future__ import annotations

import pytest

from tests.scenarios.stage_moves import check_stage_moves


@pytest.fixture(autouse=True)
def checked_stage_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    check_stage_moves(monkeypatch)
