"""Results of the comparison as a table, as Markdown and as JSON, with equal rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec
from rich.table import Table

from bench.contender_run import ContenderRun
from bench.figures import BY_KEY, MEASURES, Spread, ratio, summary
from bench.suite import Case

Rows = list[list[str]]
NOTHING = "-"
BASELINE = "kube-scheduler"


@dataclass(frozen=True)
class Failure:
    """A failed turn."""

    contender: str
    round: int
    reason: str


@dataclass(frozen=True)
class Outcome:
    """Turns and failures of one workload."""

    case: Case
    turns: list[ContenderRun] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    def failed(self, contender: str) -> bool:
        """Return True if a turn of this contender has failed: it gets no further one."""
        return any(failure.contender == contender for failure in self.failures)


def figures(turns: Sequence[ContenderRun], contenders: Sequence[str]) -> Rows:
    """Return a header and one row per measure: each contender's median, then the first one's ratio to each other."""
    ours, others = contenders[0], contenders[1:]
    rows = [["median (least to most)", *contenders, *(f"{ours} / {other}" for other in others)]]
    for measure in MEASURES:
        own = [_shown(summary(turns, name, measure), measure.digits) for name in contenders]
        ratios = [_shown(ratio(turns, ours, other, measure), 2) for other in others]
        rows.append([measure.title, *own, *ratios])
    return rows


def rounds(turns: Sequence[ContenderRun]) -> Rows:
    """Return a header and one row per turn in order, with the load of the machine."""
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
    """Return the rows as a terminal table."""
    shown = Table(title=title, title_justify="left")
    shown.add_column(rows[0][0], overflow="fold")
    for name in rows[0][1:]:
        shown.add_column(name, justify="right")
    for row in rows[1:]:
        shown.add_row(*row)
    return shown


def markdown(title: str, outcomes: Sequence[Outcome], contenders: Sequence[str]) -> str:
    """Return a Markdown page: all workloads in one table, then each with its figures and its turns."""
    by_latency = latencies(outcomes, contenders)
    parts = [f"## {title}", *([_markdown(by_latency)] if by_latency else []), _markdown(overview(outcomes, contenders))]
    for outcome in outcomes:
        parts += [f"### {outcome.case.name}"]
        parts += [f"{each.contender} failed in round {each.round}: {each.reason}" for each in outcome.failures]
        finished = finished_contenders(outcome, contenders)
        if finished:
            parts += [_markdown(figures(outcome.turns, finished)), _markdown(rounds(outcome.turns))]
    return "\n\n".join(parts) + "\n"


def finished_contenders(outcome: Outcome, contenders: Sequence[str]) -> list[str]:
    """Return the contenders that finished a turn, in their order."""
    return [name for name in contenders if any(turn.contender == name for turn in outcome.turns)]


def overview(outcomes: Sequence[Outcome], contenders: Sequence[str]) -> Rows:
    """Return a header and one row per workload: the first contender compared with its baseline."""
    ours, other = contenders[0], baseline(contenders)
    theirs = [] if other is None else [other]
    header = [
        "workload",
        "pods/s",
        *theirs,
        "ratio",
        "if free",
        "CPU ratio",
        "memory ratio",
        "attempt p99, ms",
        *theirs,
        "threshold, pods/s",
        "targets",
    ]
    return [header, *(_overview_row(outcome, ours, other) for outcome in outcomes)]


def latencies(outcomes: Sequence[Outcome], contenders: Sequence[str]) -> Rows:
    """Return a header and one row per workload: pods per second of the first contender and its baseline by latency.

    Empty if no workload was run with a latency.
    """
    ours, other = contenders[0], baseline(contenders)
    columns = list(dict.fromkeys(each.case.latency for each in outcomes))
    if other is None or not any(columns):
        return []
    rows: dict[str, list[str]] = {}
    for outcome in outcomes:
        name = outcome.case.test.name
        rows.setdefault(name, [name, *[NOTHING] * len(columns)])
        rows[name][1 + columns.index(outcome.case.latency)] = _speed_ratio(outcome, ours, other)
    return [[f"pods/s, {ours} against {other}", *(f"{each} ms" for each in columns)], *rows.values()]


def _speed_ratio(outcome: Outcome, ours: str, other: str) -> str:
    """Return the ratio of pods per second, and the two medians."""
    measure = BY_KEY["pods_per_second"]
    found = ratio(outcome.turns, ours, other, measure)
    own, theirs = (summary(outcome.turns, name, measure) for name in (ours, other))
    if found is None or own is None or theirs is None:
        return NOTHING
    return f"{found.median:.1f} ({own.median:.0f} against {theirs.median:.0f})"


def _overview_row(outcome: Outcome, ours: str, other: str | None) -> list[str]:
    names = [ours] if other is None else [ours, other]

    def own(key: str) -> list[str]:
        return [_shown(summary(outcome.turns, name, BY_KEY[key]), BY_KEY[key].digits) for name in names]

    def compared(key: str, beside: str = "") -> str:
        theirs = BY_KEY[beside] if beside else None
        return NOTHING if other is None else _shown(ratio(outcome.turns, ours, other, BY_KEY[key], theirs), 2)

    ratios = [
        compared("pods_per_second"),
        compared("pods_per_second_if_free", beside="pods_per_second"),
        *(compared(key) for key in ("cpu_ms_per_pod", "peak_memory_mib")),
    ]
    threshold = outcome.case.workload.threshold
    end = [NOTHING if threshold is None else str(threshold), verdict(outcome, ours, other)]
    return [outcome.case.name, *own("pods_per_second"), *ratios, *own("attempt_p99_ms"), *end]


def baseline(contenders: Sequence[str]) -> str | None:
    """Return the contender that the first one's targets refer to: kube-scheduler, None if it is not measured."""
    return BASELINE if BASELINE in contenders[1:] else None


def verdict(outcome: Outcome, ours: str, other: str | None) -> str:
    """Return "met", or the missed targets with their figures; a dash if there is nothing to compare."""
    if outcome.failures:
        return "; ".join(f"{failure.contender} failed" for failure in outcome.failures)
    if other is None:
        return NOTHING
    missed = []
    for key, bound in outcome.case.targets.items():
        measure = BY_KEY[key]
        found = ratio(outcome.turns, ours, other, measure)
        if found is None:
            missed.append(f"{key} not measured")
        elif round(found.median, 2) < bound if measure.more else round(found.median, 2) > bound:
            missed.append(f"{key} {found.median:.2f}, not {bound:g}")
    return "; ".join(missed) or "met"


def document(about: Mapping[str, Any], outcomes: Sequence[Outcome], contenders: Sequence[str]) -> bytes:
    """Return the JSON document: the run, then each workload's figures, ratios, failures and turns."""
    content = {"about": about, "workloads": {each.case.name: _content(each, contenders) for each in outcomes}}
    return msgspec.json.format(msgspec.json.encode(content)) + b"\n"


def _content(outcome: Outcome, contenders: Sequence[str]) -> dict[str, Any]:
    ours, turns = contenders[0], outcome.turns
    medians = {
        name: {measure.key: _plain(summary(turns, name, measure)) for measure in MEASURES} for name in contenders
    }
    ratios = {
        other: {measure.key: _plain(ratio(turns, ours, other, measure)) for measure in MEASURES}
        for other in contenders[1:]
    }
    return {
        "params": outcome.case.workload.params,
        "targets": outcome.case.targets,
        "threshold": outcome.case.workload.threshold,
        "verdict": verdict(outcome, ours, baseline(contenders)),
        "figures": medians,
        f"{ours}_to": ratios,
        "failures": [asdict(failure) for failure in outcome.failures],
        "turns": [asdict(turn) for turn in turns],
    }


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
