"""The PodGroup controller runs while somebody who leads reads PodGroups, and at no other time."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from pyscheduler.cli.pod_groups import PodGroupKeeper
from pyscheduler.controllers import ControllerProblem, operator
from pyscheduler.shell.kube.paths import NODES
from pyscheduler_plugins.pod_group import POD_GROUP


class FakeOperator:
    """Notes what happens to it; `problem` keeps it from starting."""

    happened: list[str]
    problem = ""

    def __init__(self, kubeconfig: Path | None) -> None:
        self.happened.append(f"made with {kubeconfig}")

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


async def until(happened: list[str], last: str) -> None:
    async with asyncio.timeout(5):
        while happened[-1:] != [last]:
            await asyncio.sleep(0)


async def test_it_starts_when_gangs_come_and_stops_when_they_go(happened: list[str]) -> None:
    async with PodGroupKeeper(Path("k")) as keeper:
        keeper.attend([NODES])
        await asyncio.sleep(0)
        assert happened == []
        keeper.attend([NODES, POD_GROUP])
        await until(happened, "started")
        keeper.attend([POD_GROUP])
        keeper.attend([NODES])
        await until(happened, "stopped")
        keeper.attend([POD_GROUP])
        await until(happened, "started")
    assert happened == ["made with k", "started", "stopped", "made with k", "started", "stopped"]


async def test_nobody_who_does_not_lead_starts_it(happened: list[str]) -> None:
    async with PodGroupKeeper(None):
        await asyncio.sleep(0)
    assert happened == []


async def test_one_that_cannot_start_is_told_of(
    happened: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(FakeOperator, "problem", "kubeconfig k: no such file")
    with caplog.at_level(logging.ERROR, "pyscheduler"):
        async with PodGroupKeeper(Path("k")) as keeper:
            keeper.attend([POD_GROUP])
            async with asyncio.timeout(5):
                while not caplog.records:
                    await asyncio.sleep(0)
    assert happened == ["made with k"]
    assert "PodGroup statuses are not kept" in caplog.text
