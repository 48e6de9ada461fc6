"""The PodGroup controller runs only while this replica leads and a plugin reads PodGroups."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from pyscheduler.api import ResourceKind
from pyscheduler.cli.pod_groups import PodGroupControllerRunner
from pyscheduler.controllers import operator
from pyscheduler.kube.credentials import ConnectionProblem
from pyscheduler.kube.paths import NODES
from pyscheduler_plugins.pod_group import POD_GROUP


class FakeOperator:
    """Records its calls; `problem` lets `start` fail."""

    calls: list[str]
    problem = ""

    def __init__(self, kubeconfig: Path | None, server: str, volcano_schedulers: tuple[str, ...]) -> None:
        self.calls.append(" ".join((f"created with {kubeconfig} at {server}", *volcano_schedulers)))

    async def start(self) -> None:
        if self.problem:
            raise ConnectionProblem(self.problem)
        self.calls.append("started")

    async def stop(self) -> None:
        self.calls.append("stopped")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(operator, "PodGroupOperator", FakeOperator)
    monkeypatch.setattr(FakeOperator, "calls", [], raising=False)
    monkeypatch.setattr(FakeOperator, "problem", "")
    return FakeOperator.calls


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError


async def test_controller_starts_and_stops_with_the_kind_pod_group(calls: list[str]) -> None:
    async with PodGroupControllerRunner(Path("k"), "s") as runner:
        runner.on_kinds_changed([NODES])
        await asyncio.sleep(0)
        assert calls == []
        runner.on_kinds_changed([NODES, POD_GROUP])
        await until(lambda: calls[-1:] == ["started"])
        runner.on_kinds_changed([POD_GROUP])
        runner.on_kinds_changed([NODES])
        await until(lambda: calls[-1:] == ["stopped"])
        runner.on_kinds_changed([POD_GROUP])
        await until(lambda: calls[-1:] == ["started"])
    assert calls == ["created with k at s", "started", "stopped", "created with k at s", "started", "stopped"]


async def test_controller_does_not_start_without_leadership(calls: list[str]) -> None:
    async with PodGroupControllerRunner(None):
        await asyncio.sleep(0)
    assert calls == []


async def test_failed_start_is_logged(
    calls: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(FakeOperator, "problem", "kubeconfig k: no such file")
    with caplog.at_level(logging.ERROR, "pyscheduler"):
        async with PodGroupControllerRunner(Path("k"), "s") as runner:
            runner.on_kinds_changed([POD_GROUP])
            await until(lambda: bool(caplog.records))
    assert calls == ["created with k at s"]
    assert "PodGroup controller failed to start, PodGroup statuses are not updated" in caplog.text


async def test_volcano_kinds_are_managed_if_a_plugin_reads_them(calls: list[str]) -> None:
    volcano = [POD_GROUP, ResourceKind("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")]
    async with PodGroupControllerRunner(Path("k"), "s", ["a", "b"]) as runner:
        runner.on_kinds_changed([POD_GROUP])
        await until(lambda: calls[-1:] == ["started"])
        runner.on_kinds_changed(volcano)
        await until(lambda: calls.count("started") == 2)
        runner.on_kinds_changed(volcano)
    assert calls == ["created with k at s", "started", "stopped", "created with k at s a b", "started", "stopped"]
