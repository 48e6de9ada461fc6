"""The plot of `bench compare`: ratios with their range per workload, and what is missing or below a target."""

from __future__ import annotations

from dataclasses import replace

from bench.report import Failure, Outcome
from bench.speed_plot import speed_plot
from bench.suite import Case
from tests.unit.bench.cases import case
from tests.unit.bench.contender_runs import turn

TURNS = [
    turn("ours", 1, bound_in=1.0),
    turn("kube-scheduler", 1, bound_in=4.0),
    turn("kube-scheduler", 2, bound_in=4.0),
    turn("ours", 2, bound_in=2.0),
]
BOTH = ["ours", "kube-scheduler"]
RATIO = "pods/s, ours / kube-scheduler: median of the rounds, least to most"
SPEED = "pods/s, first bind to last: median, least to most"


def with_target(pods_per_second: float) -> Case:
    base = case("[]")
    return replace(base, workload=type(base.workload)(name="small", targets={"pods_per_second": pods_per_second}))


def test_each_workload_has_a_ratio_and_the_speed_of_all_contenders() -> None:
    plot = speed_plot("2 rounds", [Outcome(with_target(2.0), TURNS)], BOTH)

    assert plot.rows[1:] == [
        ["Case/small", RATIO, "3 (2 to 4)"],
        ["Case/small, ours", SPEED, "75 (50 to 100)"],
        ["Case/small, kube-scheduler", SPEED, "25"],
    ]


def test_ratio_below_its_target_is_marked() -> None:
    plot = speed_plot("2 rounds", [Outcome(with_target(3.5), TURNS)], BOTH)

    assert plot.rows[1][-1] == "3 (2 to 4) below its target of 3.5"
    assert 'class="marked"' in plot.svg


def test_targets_refer_to_kube_scheduler_only() -> None:
    others = [turn("ours"), turn("bare-client")]
    plot = speed_plot("1 round", [Outcome(with_target(2.0), others)], ["ours", "bare-client"])

    assert plot.rows[1][-1] == "1"


def test_failed_contender_has_no_bar_and_a_reason() -> None:
    failed = Outcome(with_target(2.0), TURNS[:1], [Failure("kube-scheduler", 1, "3 of 101 pods were bound")])
    plot = speed_plot("1 round", [failed], BOTH)

    values = [row[-1] for row in plot.rows[1:]]
    assert values == ["no value, kube-scheduler failed", "100", "no value, kube-scheduler failed"]


def test_single_contender_has_speeds_only() -> None:
    assert [row[1] for row in speed_plot("1 round", [Outcome(case("[]"), TURNS[:1])], ["ours"]).rows[1:]] == [SPEED]
