"""Reload of a changed configuration file."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from prometheus_client import generate_latest

from pyscheduler.config.gates import DEFAULTS
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.config.problems import ConfigError, Problem
from pyscheduler.core.commands import EventType, Record
from pyscheduler.core.framework.pod_indexer import PodIndexer
from pyscheduler.core.state import ClusterState
from pyscheduler.shell.metrics import Metrics
from pyscheduler.shell.reload import PERIOD, Reloader, Source
from pyscheduler.shell.scheduler import Scheduler
from pyscheduler.testing import pod
from tests.unit.kube.virtual import SteppedClock

GOOD = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
"""
BETTER = GOOD + "podMaxBackoffSeconds: 20\n"
BAD = GOOD + "parallelism: 0\npodMaxBackoffSeconds: 0\n"


def write(file: Path, text: str) -> None:
    file.write_text(text)


def remove(file: Path) -> None:
    file.unlink()


def swap(folder: Path) -> None:
    """Replace the link `..data` by one to the folder `two`, as the kubelet does."""
    (folder / "..new").symlink_to("two")
    (folder / "..new").rename(folder / "..data")


@dataclass
class FakeScheduler:
    """Accepts every configuration, or raises `problem`."""

    metrics: Metrics = field(default_factory=Metrics)
    names: tuple[str, ...] = ("mine",)
    taken: list[LoadedConfig] = field(default_factory=list)
    recorded: list[Record] = field(default_factory=list)
    pods: PodIndexer = field(default_factory=lambda: PodIndexer(ClusterState(), ()))
    restart: tuple[str, ...] = ()
    problem: Exception | None = None

    async def reconfigure(self, config: LoadedConfig) -> tuple[str, ...]:
        if self.problem is not None:
            raise self.problem
        self.taken.append(config)
        return self.restart

    def execute(self, command: Record) -> None:
        self.recorded.append(command)

    @property
    def executor(self) -> Any:
        return self

    @property
    def machine(self) -> Any:
        return self

    @property
    def context(self) -> Any:
        return self

    @property
    def handle(self) -> Any:
        return self


@pytest.fixture
def scheduler() -> FakeScheduler:
    return FakeScheduler()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    write(path, GOOD)
    return path


def reloader(file: Path, scheduler: FakeScheduler, clock: SteppedClock | None = None) -> Reloader:
    return Reloader(Source(file, DEFAULTS), cast(Scheduler, scheduler), clock or SteppedClock())


def metrics(scheduler: FakeScheduler) -> list[str]:
    lines = generate_latest(scheduler.metrics.registry).decode().splitlines()
    served = [line for line in lines if line.startswith("pyscheduler_config_") and "_created" not in line]
    return [line for line in served if not line.endswith("} 0.0")]


async def test_unchanged_file_is_not_reloaded(file: Path, scheduler: FakeScheduler) -> None:
    follower = reloader(file, scheduler)
    write(file, GOOD)
    await follower.reload_if_changed()
    assert scheduler.taken == []
    assert metrics(scheduler) == ["pyscheduler_config_last_reload_successful 1.0"]


async def test_changed_file_is_reloaded_once(file: Path, scheduler: FakeScheduler) -> None:
    follower = reloader(file, scheduler)
    write(file, BETTER)
    await follower.reload_if_changed()
    await follower.reload_if_changed()
    assert [config.configuration.pod_max_backoff_seconds for config in scheduler.taken] == [20]
    assert metrics(scheduler) == [
        'pyscheduler_config_reloads_total{result="success"} 1.0',
        "pyscheduler_config_last_reload_successful 1.0",
    ]


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    """A file as the kubelet mounts it: a link through `..data` to the folder of the current version."""
    for name, text in (("one", GOOD), ("two", BETTER)):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "config.yaml", text)
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "config.yaml").symlink_to("..data/config.yaml")
    return tmp_path / "config.yaml"


async def test_replaced_link_is_a_change(mounted: Path, scheduler: FakeScheduler) -> None:
    follower = reloader(mounted, scheduler)
    swap(mounted.parent)
    await follower.reload_if_changed()
    assert len(scheduler.taken) == 1


async def test_invalid_file_is_reported_and_the_next_valid_one_is_loaded(
    file: Path, scheduler: FakeScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    follower = reloader(file, scheduler)
    write(file, BAD)
    with caplog.at_level(logging.ERROR, "pyscheduler"):
        await follower.reload_if_changed()
    (line,) = caplog.records
    problems = vars(line)["fields"]["problems"]
    assert f"{file}:5: parallelism: Invalid value: 0: should be an integer value greater than zero; " in problems
    assert f"{file}:6: podMaxBackoffSeconds: Invalid value: 0: must be greater than or equal to" in problems
    assert scheduler.taken == []
    assert metrics(scheduler) == [
        'pyscheduler_config_reloads_total{result="failure"} 1.0',
        "pyscheduler_config_last_reload_successful 0.0",
    ]
    write(file, GOOD)
    await follower.reload_if_changed()
    assert len(scheduler.taken) == 1
    assert metrics(scheduler)[-1] == "pyscheduler_config_last_reload_successful 1.0"


@pytest.mark.parametrize(
    "problem",
    [ConfigError([Problem("extenders", "cannot change")]), RuntimeError("a bug of a plugin's")],
    ids=["invalid", "crashed"],
)
async def test_reload_fails_when_reconfigure_raises(file: Path, scheduler: FakeScheduler, problem: Exception) -> None:
    scheduler.problem = problem
    follower = reloader(file, scheduler)
    write(file, BETTER)
    await follower.reload_if_changed()
    assert metrics(scheduler)[-1] == "pyscheduler_config_last_reload_successful 0.0"


async def test_deleted_file_is_reported_once(file: Path, scheduler: FakeScheduler) -> None:
    follower = reloader(file, scheduler)
    remove(file)
    await follower.reload_if_changed()
    await follower.reload_if_changed()
    assert metrics(scheduler)[0] == 'pyscheduler_config_reloads_total{result="failure"} 1.0'


async def test_reload_is_recorded_on_the_schedulers_own_pod(
    file: Path, scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POD_NAMESPACE", "kube-system")
    monkeypatch.setenv("POD_NAME", "scheduler-1")
    scheduler.pods.set_pod(None, pod("scheduler-1").namespace("kube-system").uid("u-1").build())
    scheduler.restart = ("clientConnection", "seed")
    follower = reloader(file, scheduler)
    write(file, BETTER)
    await follower.reload_if_changed()
    write(file, BAD)
    await follower.reload_if_changed()
    good, bad = scheduler.recorded
    assert (good.type, good.reason) == (EventType.NORMAL, "ConfigurationReloaded")
    assert good.note == "configuration reloaded; restart needed for: clientConnection, seed"
    assert (good.regarding.key, good.regarding.uid) == ("kube-system/scheduler-1", "u-1")
    assert good.regarding.scheduler_name == "mine"
    assert (bad.type, bad.reason) == (EventType.WARNING, "ConfigurationRefused")
    assert "parallelism: Invalid value: 0" in bad.note


async def test_reload_is_not_recorded_without_an_own_pod(
    file: Path, scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("POD_NAME", raising=False)
    follower = reloader(file, scheduler)
    write(file, BETTER)
    await follower.reload_if_changed()
    assert scheduler.recorded == []


async def test_file_is_checked_periodically_inside_the_block(file: Path, scheduler: FakeScheduler) -> None:
    clock = SteppedClock()
    async with reloader(file, scheduler, clock):
        await clock.until_asleep(1)
        write(file, BETTER)
        await clock.advance(PERIOD / 2)
        assert scheduler.taken == []
        await clock.advance(PERIOD)
        await clock.until_asleep(1)
        assert len(scheduler.taken) == 1
    write(file, GOOD)
    await clock.advance(2 * PERIOD)
    await asyncio.sleep(0)
    assert len(scheduler.taken) == 1
