"""Plots of the figures, and of the ratios of two checkouts."""

from __future__ import annotations

from collections.abc import Sequence

from bench.decide.comparison import Ratio
from bench.decide.measurement import Figure
from bench.plot import Bar, BarPanel, Plot, bar_plot


def figure_plot(figures: Sequence[Figure]) -> Plot:
    """Return the medians as bars, in a panel for each unit."""
    units = dict.fromkeys(figure.unit for figure in figures)
    panels = [
        BarPanel(
            f"median of the rounds, {unit}",
            [Bar(_name(f.name, f.nodes), f.median) for f in figures if f.unit == unit],
        )
        for unit in units
    ]
    return bar_plot("Scheduling decisions", panels)


def ratio_plot(ratios: Sequence[Ratio]) -> Plot:
    """Return the ratios as bars with a line at 1; slower rows are marked."""
    bars = [
        Bar(_name(row.name, row.nodes), row.ratio, row.least, row.most, "SLOWER" if row.is_slower else "")
        for row in ratios
    ]
    return bar_plot("Scheduling decisions of two checkouts", [BarPanel("here / base, less is better", bars, 1.0)])


def _name(name: str, nodes: int) -> str:
    return f"{name}, {nodes:,} nodes"
