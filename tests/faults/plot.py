"""Line plots over time as an SVG file, without a plotting library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

WIDTH, PANEL, LEFT, GAP = 900, 140, 70, 46
"""Sizes in pixels."""
_COLOUR = "#326ce5"


class Line(NamedTuple):
    """Quantity to plot; `unit` is shown after its name."""

    name: str
    unit: str
    values: Sequence[float]


def svg(title: str, seconds: Sequence[float], lines: Sequence[Line]) -> str:
    """Return an SVG document with one panel per line over a common time axis."""
    height = GAP + len(lines) * (PANEL + GAP)
    body = [_text(LEFT, 20, title, "bold")]
    for i, line in enumerate(lines):
        body += _panel(seconds, line, GAP + i * (PANEL + GAP))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *body, "</svg>", ""])


def _panel(seconds: Sequence[float], line: Line, top: int) -> list[str]:
    most, end = max(line.values, default=0) or 1, max(seconds, default=0) or 1
    wide, bottom = WIDTH - LEFT - 20, top + PANEL
    points = " ".join(
        f"{LEFT + wide * at / end:.1f},{bottom - PANEL * value / most:.1f}"
        for at, value in zip(seconds, line.values, strict=True)
    )
    return [
        _text(LEFT, top - 6, f"{line.name}, {line.unit}" if line.unit else line.name),
        f'<rect x="{LEFT}" y="{top}" width="{wide}" height="{PANEL}" fill="none" stroke="#ccc"/>',
        f'<polyline fill="none" stroke="{_COLOUR}" stroke-width="1.5" points="{points}"/>',
        _text(8, top + 12, f"{most:,.0f}"),
        _text(8, bottom, "0"),
        _text(LEFT, bottom + 16, "0 s"),
        _text(LEFT + wide - 60, bottom + 16, f"{end:,.0f} s"),
    ]


def _text(x: int, y: int, text: str, weight: str = "normal") -> str:
    safe = text.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x}" y="{y}" font-size="12" font-weight="{weight}">{safe}</text>'
