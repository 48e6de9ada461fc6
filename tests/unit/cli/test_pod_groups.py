"""The PodGroup controller runs while somebody who leads reads PodGroups, and at no other time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from pyscheduler.cli.pod_groups import PodGroupControllerRunner
from pyscheduler.controllers import ControllerProblem, operator
from pyscheduler.shell.kube.paths import NODES
from pyscheduler_plugins.pod_group import POD_GROUP


class FakeOperator:
    """Notes what happens to it; `problem` keeps it from starting."""

    happened: list[str]
    problem = ""

    def __init__(self, kubeconfig: Path | None, server: str) -> None:
        self.happened.append(f"made with {kubeconfig} at {server}")

    async def start(self) -> None:
        if self.problem:
            raise ControllerProblem(self.problem)
        self.happened.append("started")

    async def stop(self) -> None:
        self.happened.append("stopped")


@pytest.fixture
def happened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(operator, "PodGroupOperator", FakeOperator)
    monkeypatch.setattr(FakeOperator, "happened", [], raising=False)
    monkeypatch.setattr(FakeOperator, "problem", "")
    return FakeOperator.happened


async def until(true: Callable[[], bool]) -> None:
    for _ in range(500):
        if true():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError


async def test_it_starts_when_gangs_come_and_stops_when_they_go(happened: list[str]) -> None:
    async with PodGroupControllerRunner(Path("k"), "s") as keeper:
        keeper.on_kinds_changed([NODES])
        await asyncio.sleep(0)
        assert happened == []
        keeper.on_kinds_changed([NODES, POD_GROUP])
        await until(lambda: happened[-1:] == ["started"])
        keeper.on_kinds_changed([POD_GROUP])
        keeper.on_kinds_changed([NODES])
        await until(lambda: happened[-1:] == ["stopped"])
        keeper.on_kinds_changed([POD_GROUP])
        await until(lambda: happened[-1:] == ["started"])
    assert happened == ["made with k at s", "started", "stopped", "made with k at s", "started", "stopped"]


async def test_nobody_who_does_not_lead_starts_it(happened: list[str]) -> None:
    async with PodGroupControllerRunner(None):
        await asyncio.sleep(0)
    assert happened == []


async def test_one_that_cannot_start_is_told_of(
    happened: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(FakeOperator, "problem", "kubeconfig k: no such file")
    with caplog.at_level(logging.ERROR, "pyscheduler"):
        async with PodGroupControllerRunner(Path("k"), "s") as keeper:
            keeper.on_kinds_changed([POD_GROUP])
            await until(lambda: bool(caplog.records))
    assert happened == ["made with k at s"]
    assert "PodGroup statuses are not kept" in caplog.text
