"""Tables and JSON of the figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.table import Table

from bench.decide.measurement import Figure
from bench.decide.scenario import Scenario


class Results(msgspec.Struct, frozen=True):
    """Content of the file of `--json`."""

    figures: list[Figure]
    failed: dict[str, str]
    """Errors of the scenarios that could not be measured."""

    def write(self, file: Path) -> None:
        """Write the results as JSON."""
        file.write_bytes(msgspec.json.format(msgspec.json.encode(self)))

    @staticmethod
    def read(file: Path) -> Results:
        """Return the results in a file."""
        return msgspec.json.decode(file.read_bytes(), type=Results)


def table(figures: Sequence[Figure]) -> Table:
    """Return the figures as a table; growth is relative to the smallest cluster."""
    shown = Table("scenario", "nodes", "each", "fastest round", "unit", "growth", "per second", "slowest, µs")
    smallest: dict[str, float] = {}
    for f in figures:
        growth = f.median / (smallest.setdefault(f.name, f.median) or 1)
        values = (f"{value:,.0f}" if value >= 10 else f"{value:.1f}" for value in (f.median, f.least))
        rate = f"{1e6 / f.median:,.0f}" if f.unit == "µs" else ""
        slowest = f"{f.slowest:,.0f}" if f.slowest else ""
        shown.add_row(f.name, f"{f.nodes:,}", *values, f.unit, f"{growth:.1f}", rate, slowest)
    return shown


def scenario_table(scenarios: Sequence[Scenario]) -> Table:
    """Return the names and sentences of the scenarios."""
    shown = Table("scenario", "measures")
    for scenario in scenarios:
        shown.add_row(scenario.name, scenario.sentence)
    return shown
