"""Measurement of a scenario: warm-up, rounds, and the check that every action did what the scenario is about."""

from __future__ import annotations

import multiprocessing
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

import pyscheduler
from bench.decide.cluster import Cluster, Size
from bench.decide.scenario import Reading, Row, Scenario
from bench.decide.scenarios import SCENARIOS
from pyscheduler.cli.progress_bar import ProgressBar
from pyscheduler.core.commands import Command
from pyscheduler.shell.gc_tuning import GcTuning


class WrongOutcomeError(Exception):
    """An action did not do what its scenario measures."""


class UnknownScenarioError(Exception):
    """There is no scenario of this name."""


class MixedTreesError(Exception):
    """The modules that were measured belong to different checkouts."""


class Figure(msgspec.Struct, frozen=True):
    """Median, least and single worst value of the actions of a row on one size of cluster."""

    name: str
    nodes: int
    median: float
    """Median of the rounds, each a mean over its actions."""
    least: float
    """Mean of the fastest round."""
    slowest: float
    """Microseconds of the slowest single action, in wall time; 0 if there are no actions."""
    unit: str = "µs"


def measure(scenario: Scenario, size: Size) -> Iterator[Figure]:
    """Yield the figures of a scenario in this process."""
    with ProgressBar(f"{scenario.name}, {size.nodes:,} nodes") as progress:
        cluster = Cluster(size, progress, 0 if scenario.adds_nodes else size.nodes, scenario.config)
        for part in scenario.set_up(cluster):
            name = f"{scenario.name}: {part.name}" if part.name else scenario.name
            if isinstance(part, Reading):
                yield Figure(name, size.nodes, part.value, part.value, 0.0, part.unit)
            else:
                yield _measure_row(part, name, size, progress)


def measure_in_new_process(name: str, size: Size) -> list[Figure]:
    """Return the figures of a scenario, without the memory and the caches of earlier ones. UnknownScenarioError."""
    if name not in SCENARIOS:
        raise UnknownScenarioError(name)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure_named, (name, size))


def _measure_named(name: str, size: Size) -> list[Figure]:
    figures = list(measure(SCENARIOS[name], size))
    check_one_tree()
    return figures


def check_one_tree() -> None:
    """Raise MixedTreesError if a module of pyscheduler or of its plugins was loaded from elsewhere than the tree.

    An editable installation supplies the modules that a tree on PYTHONPATH lacks, such as compiled kernels.
    """
    tree = Path(str(pyscheduler.__file__)).parents[1]
    folders = {"pyscheduler": tree / "pyscheduler", "pyscheduler_plugins": tree}
    for name, module in sorted(sys.modules.items()):
        file, folder = getattr(module, "__file__", None), folders.get(name.partition(".")[0])
        if folder is not None and file and not Path(file).is_relative_to(folder):
            raise MixedTreesError(f"{name} is missing in {folder} and was loaded from {file}")


def _measure_row(row: Row, name: str, size: Size, progress: ProgressBar) -> Figure:
    count = row.per_round or size.pods
    rounds = min(size.rounds, row.rounds or size.rounds)
    for begin in progress.track(
        range(0, row.warm_up, count), f"{row.name} warm-up round".strip(), -(-row.warm_up // count)
    ):
        _run_round(row, name, min(count, row.warm_up - begin))
    with GcTuning():  # as in `pyscheduler run`
        found = [
            _run_round(row, name, count) for _ in progress.track(range(rounds), f"{row.name} round".strip(), rounds)
        ]
    means = [mean * row.per_microsecond for mean, _ in found]
    slowest = max(worst for _, worst in found)
    return Figure(name, size.nodes, statistics.median(means), min(means), slowest, row.unit)


def _run_round(row: Row, name: str, count: int) -> tuple[float, float]:
    """Return microseconds per action: the mean of the CPU time, and the maximum of the wall time."""
    actions = row.prepare(count)
    commands: list[Command] = []
    slowest, previous = 0, time.perf_counter_ns()
    started = time.process_time_ns()
    for action in actions:
        commands += action()
        ended = time.perf_counter_ns()
        slowest, previous = max(slowest, ended - previous), ended
    spent = time.process_time_ns() - started
    completed = row.finish(commands)
    if completed != count:
        raise WrongOutcomeError(f"{name}: {completed} of {count} actions had the expected outcome: {commands[:2]}")
    return spent / 1e3 / count, slowest / 1e3
