"""Plots as SVG files and HTML pages, without a plotting library: bars with ranges, and curves over time.

The files need no network. Colours follow the reader's light or dark theme; a mark is a text and not only a colour.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

_MARGIN, _TITLE, _HEADING, _AXIS = 16, 40, 24, 52
"""Space around the document, below its title, above a panel, and below it for ticks and axis title, in pixels."""
_CURVE_WIDTH, _CURVE_HEIGHT, _TICKS_WIDTH = 800, 140, 64
_BAR_WIDTH, _BAR_HEIGHT, _LABEL_WIDTH = 420, 24, 290
_CHARACTER = 7.2
"""Upper bound of a character's mean width at the size of the text."""
_MINUTES_FROM = 600.0
"""Length of a time axis from which on it shows minutes."""

_STYLE = """
text { font: 12px sans-serif; fill: #1f2328 } .bold { font-weight: bold }
.end { text-anchor: end } .middle { text-anchor: middle }
.paper { fill: #ffffff } .frame { fill: none; stroke: #c5ccd3 } .grid { stroke: #e1e5ea }
.bar { fill: #326ce5 } .marked { fill: #d9480f } .range, .reference { stroke: #1f2328; stroke-width: 1.5 }
.reference { stroke-dasharray: 5 3 } .curve { fill: none; stroke: #326ce5; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .paper { fill: #0d1117 } .frame { stroke: #4a525c } .grid { stroke: #2b323b }
.bar { fill: #4f83f1 } .marked { fill: #f0763b } .range, .reference { stroke: #e6edf3 } .curve { stroke: #7aa5ff }
}"""
_PAGE_STYLE = """
:root { color-scheme: light dark } body { font: 14px sans-serif; margin: 16px; background: #ffffff; color: #1f2328 }
svg { max-width: 100%; height: auto } table { border-collapse: collapse; margin: 16px }
th, td { padding: 2px 12px; border-bottom: 1px solid #8b949e; text-align: right }
th:first-child, td:first-child { text-align: left }
@media (prefers-color-scheme: dark) { body { background: #0d1117; color: #e6edf3 } }"""


class Curve(NamedTuple):
    """Quantity over time; without a unit, `name` is what is counted."""

    name: str
    unit: str
    values: Sequence[float]


class Bar(NamedTuple):
    """Value with its minimum and maximum. None is drawn as missing; a mark is shown behind the value."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    mark: str = ""

    def __str__(self) -> str:
        """Return the value, its range and its mark."""
        if self.value is None:
            return f"no value, {self.mark}".removesuffix(", ")
        parts = [_number(self.value)]
        if self.low is not None and self.high is not None and self.low != self.high:
            parts.append(f"({_number(self.low)} to {_number(self.high)})")
        return " ".join([*parts, self.mark]).strip()


class BarPanel(NamedTuple):
    """Bars on a common scale; `axis` is the quantity with its unit, `reference` a value with a line of its own."""

    axis: str
    bars: Sequence[Bar]
    reference: float | None = None


class Plot(NamedTuple):
    """A drawn plot, and its figures as a table: a header and one row per bar or curve."""

    title: str
    svg: str
    rows: Sequence[Sequence[str]]

    @property
    def html(self) -> str:
        """A page with the plot and the table."""
        return "\n".join(
            [
                "<!doctype html>",
                f'<html lang="en"><head><meta charset="utf-8"><title>{escape(self.title)}</title>',
                f"<style>{_PAGE_STYLE}\n</style></head><body>",
                self.svg,
                "<table>",
                _table_row("th", self.rows[0]),
                *(_table_row("td", row) for row in self.rows[1:]),
                "</table></body></html>\n",
            ]
        )

    def write(self, svg: Path | None = None, html: Path | None = None) -> None:
        """Write the files whose paths are given."""
        if svg is not None:
            svg.write_text(self.svg, encoding="utf-8")
        if html is not None:
            html.write_text(self.html, encoding="utf-8")


def line_plot(title: str, seconds: Sequence[float], curves: Sequence[Curve]) -> Plot:
    """Return a plot with a panel per curve over a common time axis."""
    body: list[str] = []
    top = _TITLE
    for curve in curves:
        body += _curve_panel(seconds, curve, top + _HEADING)
        top += _HEADING + _CURVE_HEIGHT + _AXIS
    rows = [["", "least", "median", "most", "last"], *map(_curve_row, curves)]
    return Plot(title, _document(title, _MARGIN + _TICKS_WIDTH + _CURVE_WIDTH + 2 * _MARGIN, top, body), rows)


def bar_plot(title: str, panels: Sequence[BarPanel]) -> Plot:
    """Return a plot with horizontal bars, panel below panel."""
    names = [bar.name for panel in panels for bar in panel.bars]
    left = _MARGIN + round(_CHARACTER * max(map(len, names), default=0))
    body: list[str] = []
    top = _TITLE
    for panel in panels:
        body += _bar_panel(panel, left, top)
        top += _BAR_HEIGHT * len(panel.bars) + _AXIS
    rows = [["", "quantity", "value"], *([b.name, p.axis, str(b)] for p in panels for b in p.bars)]
    return Plot(title, _document(title, left + _BAR_WIDTH + _LABEL_WIDTH, top, body), rows)


def _document(title: str, width: int, height: int, body: Sequence[str]) -> str:
    width = max(width, 2 * _MARGIN + round(_CHARACTER * len(title)))
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}\n</style>",
        '<rect class="paper" width="100%" height="100%"/>',
        _text(_MARGIN, 24, title, "bold"),
        *body,
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _curve_panel(seconds: Sequence[float], curve: Curve, top: int) -> Iterator[str]:
    end = max(seconds, default=0.0) or 1.0
    unit, scale = ("min", 60.0) if end > _MINUTES_FROM else ("s", 1.0)
    most = max(curve.values, default=0.0) or 1.0
    left, bottom = _MARGIN + _TICKS_WIDTH, top + _CURVE_HEIGHT

    def x(at: float) -> float:
        return left + _CURVE_WIDTH * at / end

    def y(value: float) -> float:
        return bottom - _CURVE_HEIGHT * value / most

    yield _text(left, top - 8, _with_unit(curve), "bold")
    for tick in _ticks(most):
        yield _line("grid", left, y(tick), left + _CURVE_WIDTH, y(tick))
        yield _text(left - 8, y(tick) + 4, _number(tick), "end")
    for tick in _ticks(end / scale):
        yield _text(x(tick * scale), bottom + 16, _number(tick), "middle")
    yield f'<rect class="frame" x="{left}" y="{top}" width="{_CURVE_WIDTH}" height="{_CURVE_HEIGHT}"/>'
    points = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in zip(seconds, curve.values, strict=True))
    yield f'<polyline class="curve" points="{points}"/>'
    yield _text(left + _CURVE_WIDTH / 2, bottom + 32, f"time, {unit}", "middle")


def _bar_panel(panel: BarPanel, left: int, top: int) -> Iterator[str]:
    ends = [value for bar in panel.bars for value in (bar.value, bar.high) if value is not None]
    most = max([*ends, panel.reference or 0.0]) or 1.0
    bottom = top + _BAR_HEIGHT * len(panel.bars)

    def x(value: float) -> float:
        return left + _BAR_WIDTH * value / most

    for tick in _ticks(most):
        yield _line("grid", x(tick), top, x(tick), bottom)
        yield _text(x(tick), bottom + 16, _number(tick), "middle")
    for i, bar in enumerate(panel.bars):
        yield from _drawn_bar(bar, x, left, top + i * _BAR_HEIGHT)
    if panel.reference is not None:
        yield _line("reference", x(panel.reference), top, x(panel.reference), bottom)
    yield _text(left + _BAR_WIDTH / 2, bottom + 32, panel.axis, "middle")


def _drawn_bar(bar: Bar, x: Callable[[float], float], left: int, top: int) -> Iterator[str]:
    """Yield name, bar, range and value; values are in a column, where no line crosses them."""
    middle = top + _BAR_HEIGHT // 2
    yield _text(left - 8, middle + 4, bar.name, "end")
    yield _text(left + _BAR_WIDTH + 12, middle + 4, str(bar))
    if bar.value is None:
        return
    css = "marked" if bar.mark else "bar"
    size = f'width="{x(bar.value) - left:.1f}" height="{_BAR_HEIGHT - 8}"'
    yield f'<rect class="{css}" x="{left}" y="{top + 4}" {size}><title>{escape(f"{bar.name}: {bar}")}</title></rect>'
    if bar.low is not None and bar.high is not None and bar.low != bar.high:
        yield _line("range", x(bar.low), middle, x(bar.high), middle)
        for end in (bar.low, bar.high):
            yield _line("range", x(end), middle - 4, x(end), middle + 4)


def _ticks(most: float) -> list[float]:
    """Return multiples of 1, 2 or 5 times a power of ten, from 0 to at most `most`."""
    power = 10.0 ** math.floor(math.log10(most / 4))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= most / 4)
    return [step * i for i in range(math.floor(most / step * (1 + 1e-9)) + 1)]


def _curve_row(curve: Curve) -> list[str]:
    values = curve.values
    figures = [min(values), statistics.median(values), max(values), values[-1]] if values else []
    return [_with_unit(curve), *(map(_number, figures) if figures else ["no value"] * 4)]


def _with_unit(curve: Curve) -> str:
    return f"{curve.name}, {curve.unit}" if curve.unit else curve.name


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _line(css: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{css}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, css: str = "") -> str:
    classes = f' class="{css}"' if css else ""
    return f'<text{classes} x="{x:.0f}" y="{y:.0f}">{escape(text)}</text>'


def _table_row(cell: str, texts: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{cell}>{escape(text)}</{cell}>' for text in texts)}</tr>"
