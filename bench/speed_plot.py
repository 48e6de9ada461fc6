"""Plot of `bench compare`: pods per second of the contenders, and the ratios of the first one's."""

from __future__ import annotations

from collections.abc import Sequence

from bench.figures import BY_KEY, Spread, ratio, summary
from bench.plot import Bar, BarPanel, Plot, bar_plot
from bench.report import BASELINE, Outcome

_KEY = "pods_per_second"


def speed_plot(title: str, outcomes: Sequence[Outcome], contenders: Sequence[str]) -> Plot:
    """Return a panel of ratios per other contender with a bar per workload, and the pods per second of all below."""
    ours, others = contenders[0], contenders[1:]
    panels = [
        BarPanel(
            f"pods/s, {ours} / {other}: median of the rounds, least to most",
            [_ratio_bar(outcome, ours, other) for outcome in outcomes],
            reference=1.0,
        )
        for other in others
    ]
    speeds = [_speed_bar(outcome, name) for outcome in outcomes for name in contenders]
    return bar_plot(title, [*panels, BarPanel("pods/s, first bind to last: median, least to most", speeds)])


def _ratio_bar(outcome: Outcome, ours: str, other: str) -> Bar:
    """Return the bar of a ratio, with a mark if the workload's target is missed."""
    spread = ratio(outcome.turns, ours, other, BY_KEY[_KEY])
    target = outcome.case.targets.get(_KEY) if other == BASELINE else None
    is_missed = spread is not None and target is not None and round(spread.median, 2) < target
    mark = f"below its target of {target:g}" if is_missed else _failures(outcome, ours, other)
    return _bar(outcome.case.name, spread, mark)


def _speed_bar(outcome: Outcome, name: str) -> Bar:
    spread = summary(outcome.turns, name, BY_KEY[_KEY])
    return _bar(f"{outcome.case.name}, {name}", spread, _failures(outcome, name))


def _failures(outcome: Outcome, *contenders: str) -> str:
    """Return which of the contenders have failed, "" if none has."""
    failed = [name for name in contenders if outcome.failed(name)]
    return f"{', '.join(failed)} failed" if failed else ""


def _bar(name: str, spread: Spread | None, mark: str) -> Bar:
    return Bar(name, None, mark=mark) if spread is None else Bar(name, spread.median, spread.low, spread.high, mark)
