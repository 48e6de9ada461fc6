"""The comparison as people and programs read it: the same rows as a table, as Markdown and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import msgspec
from rich.table import Table

from bench.figures import MEASURES, Spread, ratio, summary
from bench.turn import Turn

Rows = list[list[str]]
NOTHING = "-"


def figures(turns: Sequence[Turn], contenders: Sequence[str]) -> Rows:
    """A header, then one row a measure: each contender's median, then the first one's ratio to each other."""
    ours, others = contenders[0], contenders[1:]
    rows = [["median (least to most)", *contenders, *(f"{ours} / {other}" for other in others)]]
    for measure in MEASURES:
        own = [_shown(summary(turns, name, measure), measure.digits) for name in contenders]
        ratios = [_shown(ratio(turns, ours, other, measure), 2) for other in others]
        rows.append([measure.title, *own, *ratios])
    return rows


def rounds(turns: Sequence[Turn]) -> Rows:
    """A header, then one row a turn in the order they were taken, with what else went on on the machine."""
    header = ["round", "contender", "pods/s", "own CPU, ms per pod", "load before", "cores used by others"]
    measured = {measure.key: measure.value for measure in MEASURES}
    speed, cpu = measured["pods_per_second"], measured["cpu_ms_per_pod"]
    return [
        header,
        *(
            [str(t.round), t.contender, f"{speed(t) or 0:.0f}", f"{cpu(t):.3f}", f"{t.load:.1f}", f"{t.others:.2f}"]
            for t in turns
        ),
    ]


def table(title: str, rows: Rows) -> Table:
    """For the terminal."""
    made = Table(title=title, title_justify="left")
    made.add_column(rows[0][0])
    for name in rows[0][1:]:
        made.add_column(name, justify="right")
    for row in rows[1:]:
        made.add_row(*row)
    return made


def markdown(title: str, *tables: Rows) -> str:
    """For a page: a heading and the tables below it."""
    return "\n\n".join([f"## {title}", *map(_markdown, tables)]) + "\n"


def document(about: Mapping[str, Any], turns: Sequence[Turn], contenders: Sequence[str]) -> bytes:
    """For programs: what was run, the figures, and every turn they come from."""
    ours = contenders[0]
    medians = {
        name: {measure.key: _plain(summary(turns, name, measure)) for measure in MEASURES} for name in contenders
    }
    ratios = {
        other: {measure.key: _plain(ratio(turns, ours, other, measure)) for measure in MEASURES}
        for other in contenders[1:]
    }
    content = {"about": about, "figures": medians, f"{ours}_to": ratios, "turns": [asdict(turn) for turn in turns]}
    return msgspec.json.format(msgspec.json.encode(content)) + b"\n"


def _shown(spread: Spread | None, digits: int) -> str:
    if spread is None:
        return NOTHING
    median, low, high = (f"{value:.{digits}f}" for value in (spread.median, spread.low, spread.high))
    return median if low == high else f"{median} ({low} to {high})"


def _plain(spread: Spread | None) -> dict[str, float] | None:
    return None if spread is None else asdict(spread)


def _markdown(rows: Rows) -> str:
    rule = ["---", *["---:"] * (len(rows[0]) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:]))
