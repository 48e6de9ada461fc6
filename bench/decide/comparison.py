"""Comparison of this checkout with another one, in alternating processes, each with the benchmark of its own tree.

The benchmark reaches into the core, which other versions shape differently; so each tree brings its own, and scenarios
that only one of them has are left out.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click
from rich.table import Table

from bench.decide.results import Results

CHECKOUT = Path(__file__).parents[2]
SLOWER = 1.15
"""Ratio above which a row is marked."""


class Ratio(NamedTuple):
    """A row of both trees; medians over the turns."""

    name: str
    nodes: int
    base: float
    here: float
    unit: str
    ratio: float
    """Median of the turns' ratios, which the machine's speed changes less than the figures."""
    least: float
    most: float
    """Least and greatest ratio of a turn."""
    fastest: float
    """Ratio of the fastest rounds of all turns: what else the machine does makes rounds slower, but not faster."""

    @property
    def is_slower(self) -> bool:
        """True if this checkout's value is worse by more than the tolerance, in the fastest round too."""
        return min(self.ratio, self.fastest) > SLOWER


def compare(base: Path, options: Sequence[str], turns: int) -> list[tuple[Results, Results]]:
    """Run the scenarios in the base, another checkout, and in this one; return the results of each turn."""
    found = []
    for turn in range(turns):
        click.echo(f"turn {turn + 1} of {turns}", err=True)
        pair = {tree: _run(tree, options) for tree in _order(base, CHECKOUT, turn)}
        found.append((pair[base], pair[CHECKOUT]))
    return found


def ratios(turns: Sequence[tuple[Results, Results]]) -> list[Ratio]:
    """Return the rows that both trees have in every turn."""
    pairs = [
        ({(f.name, f.nodes): f for f in base.figures}, {(f.name, f.nodes): f for f in here.figures})
        for base, here in turns
    ]
    rows = [key for key in pairs[0][1] if all(key in base and key in here for base, here in pairs)]
    found = []
    for key in rows:
        of_turns = sorted(here[key].median / (base[key].median or 1) for base, here in pairs)
        base_value = statistics.median(base[key].median for base, _ in pairs)
        here_value = statistics.median(here[key].median for _, here in pairs)
        unit, ratio = pairs[0][1][key].unit, statistics.median(of_turns)
        fastest = min(here[key].least for _, here in pairs) / (min(base[key].least for base, _ in pairs) or 1)
        found.append(Ratio(*key, base_value, here_value, unit, ratio, of_turns[0], of_turns[-1], fastest))
    return found


def left_out(turns: Sequence[tuple[Results, Results]]) -> dict[str, str]:
    """Return the errors of the scenarios that one of the trees could not run."""
    return {
        name: f"{tree}: {error}"
        for pair in turns
        for tree, results in zip(("base", "here"), pair, strict=True)
        for name, error in results.failed.items()
    }


def ratio_table(found: Sequence[Ratio]) -> Table:
    """Return the rows as a table; those that are more than 15 % slower are marked."""
    shown = Table("scenario", "nodes", "base", "here", "unit", "here / base", "fastest rounds", "")
    for row in found:
        values = (f"{value:,.1f}" for value in (row.base, row.here))
        of_both = (f"{value:.2f}" for value in (row.ratio, row.fastest))
        shown.add_row(row.name, f"{row.nodes:,}", *values, row.unit, *of_both, "SLOWER" if row.is_slower else "")
    return shown


def _order(base: Path, here: Path, turn: int) -> tuple[Path, Path]:
    return (here, base) if turn % 2 else (base, here)


def _run(checkout: Path, options: Sequence[str]) -> Results:
    # Without its own plugins on the path, an editable installation would supply those of another checkout.
    python_path = os.pathsep.join(map(str, (checkout, checkout / "plugins")))
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "results.json"
        command = [sys.executable, "-P", "-m", "bench.decide", *options, "--skip-unknown", "--json", str(file)]
        # A failed scenario is in the results; without results there is nothing to compare.
        ended = subprocess.run(
            command, env={**os.environ, "PYTHONPATH": python_path}, stdout=subprocess.DEVNULL, check=False
        )
        if not file.is_file():
            raise click.ClickException(f"the scenarios of {checkout} ended with exit code {ended.returncode}")
        return Results.read(file)
