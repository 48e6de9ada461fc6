"""Report of simulation results as one HTML page: tables, and diagrams as inline SVG. It loads nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final, NamedTuple

from pyscheduler.cli.simulation_view import LEGEND, pending_jobs, pending_text, sections, short_names
from pyscheduler.cli.task_view import duration
from pyscheduler.simulator.report import JobResult, SimulationResult

_COLOURS: Final = ("#1f77b4", "#d95f02", "#2a9d5c", "#7b4fb5", "#b8860b", "#c2185b")
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 640, 180, 44, 24
_SHOWN_JOBS: Final = 500
_STYLE: Final = """
:root {color-scheme: light dark}
body {font: 14px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 80em; padding: 0 1em}
body {color: #222; background: #fff}
table {border-collapse: collapse; margin: 1em 0}
th, td {padding: .25em .9em .25em 0; text-align: right; vertical-align: top; border-bottom: 1px solid #ddd}
th:first-child, td:first-child, .text {text-align: left}
.charts {display: flex; flex-wrap: wrap; gap: 1.5em}
figure {margin: 0; flex: 1 1 26em; max-width: 640px}
figcaption {font-weight: 600}
svg {max-width: 100%; height: auto}
svg text {font-size: 11px; fill: #555}
svg line {stroke: #ddd}
.key {margin-right: 1em}
li, figcaption {overflow-wrap: anywhere}
.wide {overflow-x: auto}
.wide th, .wide td {white-space: nowrap}
.wide td:first-child, .wide td.text {white-space: normal; min-width: 9em; overflow-wrap: anywhere}
.wide td:last-child {min-width: 22em}
@media (prefers-color-scheme: dark) {
  body {color: #ddd; background: #181818}
  th, td {border-color: #444}
  svg text {fill: #aaa}
  svg line {stroke: #444}
  polyline, .key {filter: brightness(1.5)}
}
"""


class _Line(NamedTuple):
    name: str
    values: list[float]


def print_html(results: Sequence[SimulationResult]) -> None:
    """Print the report."""
    print("\n".join(_page(results)))


def _page(results: Sequence[SimulationResult]) -> Iterator[str]:
    names = short_names(results)
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>Simulation</title>'
    yield f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>Simulation</h1>"
    for i, section in enumerate(sections(results)):
        heads = [section.heading, *(names if i == 0 or len(names) > 1 else [""] * len(names))]
        yield _table(heads, [[name, *cells] for name, cells in section.rows])
    yield f"<p>{escape(LEGEND)}</p>"
    yield from _charts(results, names)
    for name, result in zip(names, results, strict=True):
        yield f"<h2>{escape(name)}</h2>"
        yield from (f"<p>{escape(note)}</p>" for note in result.notes)
        if reasons := pending_jobs(result):
            yield "<h3>Waiting at the end</h3>\n<ul>"
            yield from (f"<li>{escape(pending_text(each))}</li>" for each in reasons)
            yield "</ul>"
        yield from _jobs(result)
    yield "</body>\n</html>"


def _jobs(result: SimulationResult) -> Iterator[str]:
    shown = sorted(result.jobs, key=lambda job: -job.waited)[:_SHOWN_JOBS]
    yield f"<h3>Jobs, the longest waits first{_of_all(len(shown), len(result.jobs))}</h3>"
    heads = ("Job", "Queue", "State", "Pods", "Arrived", "Waited", "Started", "Ended", "Evicted", "Nodes", "Waited for")
    yield f'<div class="wide">{_table(heads, [_job_cells(job) for job in shown], text_from=9)}</div>'


def _of_all(shown: int, count: int) -> str:
    return f": {shown} of {count:,}" if shown < count else ""


def _job_cells(job: JobResult) -> list[str]:
    nodes = ", ".join(job.nodes[:4]) + (f" and {len(job.nodes) - 4} more" if len(job.nodes) > 4 else "")
    times = (duration(job.arrived), duration(job.waited), _time(job.started), _time(job.ended))
    message = job.messages[0] if job.messages and (job.waited or job.pending) else ""
    return [job.name, job.queue, job.state, str(job.pods), *times, str(job.evictions), nodes, message]


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else duration(seconds)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], text_from: int | None = None) -> str:
    def cells(tag: str, texts: Sequence[str]) -> str:
        classes = [' class="text"' if text_from is not None and i >= text_from else "" for i in range(len(texts))]
        return "".join(f"<{tag}{c}>{escape(text)}</{tag}>" for c, text in zip(classes, texts, strict=True))

    body = "\n".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table>\n<tr>{cells('th', heads)}</tr>\n{body}\n</table>"


def _charts(results: Sequence[SimulationResult], names: Sequence[str]) -> Iterator[str]:
    """Yield the diagrams of all configurations with the same scales."""
    seconds = max((result.seconds for result in results), default=0.0)
    longest = max((point.waiting for result in results for point in result.series), default=0.0)
    for heading, is_usage in (("Share of the nodes that pods requested", True), ("Jobs that wait", False)):
        yield f'<h2>{heading}</h2>\n<div class="charts">'
        for name, result in zip(names, results, strict=True):
            lines = [_Line("jobs", [point.waiting for point in result.series])]
            if is_usage:
                columns = enumerate(result.resources)
                lines = [_Line(each, [point.used[i] for point in result.series]) for i, each in columns]
            yield _chart(name, result, lines, (seconds, 1.0 if is_usage else max(longest, 1.0)))
        yield "</div>"


def _chart(name: str, result: SimulationResult, lines: Sequence[_Line], scales: tuple[float, float]) -> str:
    seconds, most = scales
    right, top = _WIDTH - 8, 8
    base = _HEIGHT - _BOTTOM

    def x(at: float) -> float:
        return _LEFT + (right - _LEFT) * (at / seconds if seconds else 0.0)

    def y(value: float) -> float:
        return base - (base - top) * min(value / most, 1.0)

    def label(value: float) -> str:
        return f"{value:.0%}" if len(lines) != 1 or lines[0].name != "jobs" else f"{value:.4g}"

    parts = []
    for share in (0.0, 0.5, 1.0):
        level, at = y(share * most), x(share * seconds)
        parts.append(f'<line x1="{_LEFT}" x2="{right}" y1="{level:.1f}" y2="{level:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{level + 4:.1f}" text-anchor="end">{label(share * most)}</text>')
        anchor = "start" if share == 0 else "end" if share == 1 else "middle"
        parts.append(f'<text x="{at:.1f}" y="{_HEIGHT - 6}" text-anchor="{anchor}">{duration(share * seconds)}</text>')
    keys = []
    for i, line in enumerate(lines):
        colour = _COLOURS[i % len(_COLOURS)]
        points = " ".join(f"{x(p.at):.1f},{y(v):.1f}" for p, v in zip(result.series, line.values, strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        keys.append(f'<span class="key" style="color: {colour}">{escape(line.name)}</span>')
    box = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}"'
    svg = f'<svg {box} role="img" aria-label="{escape(name)}">{"".join(parts)}</svg>'
    return f"<figure><figcaption>{escape(name)}</figcaption>\n{svg}\n<div>{''.join(keys)}</div></figure>"
