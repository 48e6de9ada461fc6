"""Figures of turns: medians with their spread, and ratios within a round, under the same machine load."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bench.burst import Burst
from bench.contender_run import ContenderRun

MIB = 2**20


@dataclass(frozen=True)
class Spread:
    """A median with minimum and maximum."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread | None:
        """Return the spread, None without values."""
        ordered = sorted(values)
        return cls(statistics.median(ordered), ordered[0], ordered[-1]) if ordered else None


@dataclass(frozen=True)
class Measure:
    """A figure that turns are compared by. `value` is None if a contender does not have it.

    `ratio` is False for figures that are not divided by the other contender's; `more` is True if more is better.
    """

    key: str
    title: str
    value: Callable[[ContenderRun], float | None]
    digits: int = 2
    ratio: bool = True
    more: bool = False


def per_second(turn: ContenderRun) -> float | None:
    """Return pods bound per second between the first binding and the last; None if these are simultaneous."""
    return (turn.pods - 1) / turn.bound_in if turn.bound_in > 0 else None


def per_second_from_ready(turn: ContenderRun) -> float | None:
    """Return pods bound per second since the contender was ready, for pods that need preparation before."""
    duration = turn.last_bind - turn.ready
    return turn.pods / duration if duration > 0 else None


def per_second_if_free(turn: ContenderRun) -> float | None:
    """Return pods bound per second if the contender's own CPU time were free."""
    found, speed_up = per_second(turn), turn.burst.speed_up if turn.burst else None
    return None if found is None or speed_up is None else found * speed_up


def in_burst(used: Callable[[Burst], float]) -> Callable[[ContenderRun], float | None]:
    """Return the measure of CPU milliseconds per pod between the first binding and the last."""
    return lambda turn: None if turn.burst is None else used(turn.burst) / turn.pods * 1000


def events_per_second(turn: ContenderRun) -> float | None:
    """Return Events written per second between the first binding and the last Event."""
    duration = None if turn.last_event is None else turn.last_event - turn.first_bind
    return turn.events / duration if duration else None


def milliseconds(seconds: float | None) -> float | None:
    """Convert seconds to milliseconds; None stays None."""
    return None if seconds is None else seconds * 1000


MEASURES = (
    Measure("pods_per_second", "pods/s, first bind to last", per_second, 0, more=True),
    Measure("pods_per_second_from_ready", "pods/s, ready to last bind", per_second_from_ready, 0, more=True),
    Measure("events_per_second", "Events/s, first bind to last Event", events_per_second, 0, more=True),
    Measure("pods_per_second_if_free", "pods/s, if its own CPU were free", per_second_if_free, 0, ratio=False),
    Measure("ready_seconds", "s from start to ready", lambda t: t.ready),
    Measure("first_bind_seconds", "s from start to first bind", lambda t: t.first_bind),
    Measure("last_bind_seconds", "s from start to last bind", lambda t: t.last_bind),
    Measure("last_event_seconds", "s from start to last Event", lambda t: t.last_event),
    Measure("cpu_ms_per_pod", "own CPU, ms per pod", lambda t: t.cpu / t.pods * 1000, 3),
    Measure("cpu_seconds", "own CPU in all, s", lambda t: t.cpu),
    Measure(
        "api_server_cpu_ms_per_pod", "kube-apiserver's CPU, ms per pod", lambda t: t.api_server_cpu / t.pods * 1000
    ),
    Measure("etcd_cpu_ms_per_pod", "etcd's CPU, ms per pod", lambda t: t.etcd_cpu / t.pods * 1000),
    Measure("burst_cpu_ms_per_pod", "while binding: own CPU, ms per pod", in_burst(lambda b: b.own), 3),
    Measure("burst_api_server_ms_per_pod", "while binding: kube-apiserver's", in_burst(lambda b: b.api_server), 3),
    Measure("burst_etcd_ms_per_pod", "while binding: etcd's", in_burst(lambda b: b.etcd), 3),
    Measure("burst_bench_ms_per_pod", "while binding: the bench's", in_burst(lambda b: b.bench), 3),
    Measure("peak_memory_mib", "peak memory, MiB", lambda t: t.peak_memory / MIB, 0),
    Measure("attempt_p50_ms", "attempt p50, ms", lambda t: milliseconds(t.attempt_p50), 1),
    Measure("attempt_p99_ms", "attempt p99, ms", lambda t: milliseconds(t.attempt_p99), 1),
    Measure("pending_p50_ms", "pending to bound p50, ms", lambda t: milliseconds(t.pending_p50), 0),
    Measure("pending_p99_ms", "pending to bound p99, ms", lambda t: milliseconds(t.pending_p99), 0),
    Measure("events", "Events written", lambda t: t.events, 0, ratio=False),
    Measure("nodes_used", "nodes that got pods", lambda t: t.balance.nodes_used, 0, ratio=False),
    Measure("most_on_a_node", "most pods on a node", lambda t: t.balance.most_on_a_node, 0, ratio=False),
    Measure("deviation", "pods per node, std. dev.", lambda t: t.balance.deviation, ratio=False),
    Measure("cpu_deviation", "CPU requested, std. dev., % of a node", lambda t: t.balance.cpu_deviation, ratio=False),
)
BY_KEY = {measure.key: measure for measure in MEASURES}


def summary(turns: Sequence[ContenderRun], contender: str, measure: Measure) -> Spread | None:
    """Return the contender's figure over all rounds."""
    return Spread.of(_values(turns, contender, measure).values())


def ratio(
    turns: Sequence[ContenderRun], contender: str, other: str, measure: Measure, beside: Measure | None = None
) -> Spread | None:
    """Return the ratio of the contender's figure to the other's by round; None if no round has both.

    `beside` is the other's measure, if it is another one.
    """
    if not measure.ratio and beside is None:
        return None
    ours, theirs = _values(turns, contender, measure), _values(turns, other, beside or measure)
    return Spread.of(ours[number] / theirs[number] for number in ours if theirs.get(number))


def _values(turns: Sequence[ContenderRun], contender: str, measure: Measure) -> dict[int, float]:
    """Return the values by round."""
    by_round = ((turn.round, measure.value(turn)) for turn in turns if turn.contender == contender)
    return {number: value for number, value in by_round if value is not None}
