"""Reports for people and programs."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest

from bench import report
from bench.report import Failure, Outcome
from bench.suite import Case
from tests.unit.bench.cases import case
from tests.unit.bench.contender_runs import turn

TURNS = [
    turn("ours", 1, bound_in=1.0),
    turn("kube-scheduler", 1, bound_in=4.0),
    turn("kube-scheduler", 2, bound_in=4.0),
    turn("ours", 2, bound_in=2.0, load=7.25, others=1.5),
]
BOTH = ["ours", "kube-scheduler"]
FAILURE = Failure("kube-scheduler", 1, "3 of 101 pods were bound")


def with_targets(**targets: float) -> Case:
    """Return a case with these targets."""
    base = case("[]")
    return replace(base, workload=type(base.workload)(name="small", targets=targets))


def test_row_has_the_figures_of_all_and_the_ratios_of_the_first() -> None:
    header, speed = report.figures(TURNS, BOTH)[:2]

    assert header == ["median (least to most)", *BOTH, "ours / kube-scheduler"]
    assert speed == ["pods/s, first bind to last", "75 (50 to 100)", "25", "3.00 (2.00 to 4.00)"]


def test_missing_figure_is_a_dash() -> None:
    rows = report.figures([turn("ours"), turn("kube-scheduler", attempt_p50=None)], BOTH)

    assert next(row for row in rows if row[0].startswith("attempt p50")) == ["attempt p50, ms", "2.0", "-", "-"]


def test_single_contender_has_no_ratios() -> None:
    assert all(len(row) == 2 for row in report.figures(TURNS, ["ours"]))


def test_turns_are_listed_in_order_with_the_load_of_the_machine() -> None:
    rows = report.rounds(TURNS)

    assert [row[:3] for row in rows[1:3]] == [["1", "ours", "100"], ["1", "kube-scheduler", "25"]]
    assert rows[4] == ["2", "ours", "50", "1.000", "7.2", "1.50"]


def test_latencies_are_columns_of_one_table() -> None:
    base = case("[]")
    outcomes = [Outcome(replace(base, latency=5), TURNS), Outcome(replace(base, latency=50), failures=[FAILURE])]

    assert report.latencies(outcomes, BOTH) == [
        ["pods/s, ours against kube-scheduler", "5 ms", "50 ms"],
        ["Case", "3.0 (75 against 25)", "-"],
    ]
    assert "| Case | 3.0 (75 against 25) | - |" in report.markdown("All", outcomes, BOTH)


def test_no_latency_table_without_latency_or_baseline() -> None:
    base = case("[]")

    assert not report.latencies([Outcome(base, TURNS)], BOTH)
    assert not report.latencies([Outcome(replace(base, latency=5), TURNS)], ["ours"])


def test_overview_has_a_row_per_workload() -> None:
    header, row = report.overview([Outcome(with_targets(pods_per_second=2.0), TURNS)], BOTH)

    assert header[:5] == ["workload", "pods/s", "kube-scheduler", "ratio", "if free"]
    assert row[:5] == ["Case/small", "75 (50 to 100)", "25", "3.00 (2.00 to 4.00)", "4.00 (2.67 to 5.33)"]
    assert row[-1] == "met"


def test_overview_has_the_threshold_of_scheduler_perf() -> None:
    base = with_targets()
    case = replace(base, workload=msgspec.structs.replace(base.workload, threshold=680))
    header, *rows = report.overview([Outcome(base, TURNS), Outcome(case, TURNS)], BOTH)

    assert [row[header.index("threshold, pods/s")] for row in rows] == ["-", "680"]


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        ({"pods_per_second": 3.0, "peak_memory_mib": 1.0}, "met"),
        ({"pods_per_second": 4.0}, "pods_per_second 3.00, not 4"),
        ({"peak_memory_mib": 0.5}, "peak_memory_mib 1.00, not 0.5"),
        ({"nodes_used": 1.0}, "nodes_used not measured"),
    ],
)
def test_target_is_a_minimum_or_a_maximum(targets: dict[str, float], expected: str) -> None:
    assert report.verdict(Outcome(with_targets(**targets), TURNS), "ours", "kube-scheduler") == expected


def test_failure_is_the_verdict_and_has_its_reason_in_the_markdown() -> None:
    outcome = Outcome(with_targets(), TURNS[:1], [FAILURE])

    assert report.verdict(outcome, "ours", "kube-scheduler") == "kube-scheduler failed"
    assert "kube-scheduler failed in round 1: 3 of 101 pods were bound" in report.markdown("T", [outcome], BOTH)
    assert report.finished_contenders(outcome, BOTH) == ["ours"]
    assert outcome.failed("kube-scheduler")
    assert not outcome.failed("ours")


def test_no_verdict_without_kube_scheduler() -> None:
    header, row = report.overview([Outcome(with_targets(pods_per_second=2.0), TURNS)], ["ours"])

    assert (row[0], row[1], row[-1]) == ("Case/small", "75 (50 to 100)", "-")
    assert len(header) == len(row)


def test_markdown_numbers_are_right_aligned() -> None:
    text = report.markdown("A title", [Outcome(with_targets(), TURNS)], BOTH)

    assert text.startswith("## A title\n\n| workload | pods/s | kube-scheduler |")
    assert "| --- | ---: | ---: | ---: |\n| pods/s, first bind to last | 75 (50 to 100) | 25 |" in text


def test_terminal_table_has_the_same_rows() -> None:
    base = report.table("A title", report.figures(TURNS, BOTH))

    assert base.row_count == len(report.figures(TURNS, BOTH)) - 1
    assert [str(column.header) for column in base.columns][1:] == [*BOTH, "ours / kube-scheduler"]


def test_json_has_figures_and_turns() -> None:
    outcomes = [Outcome(with_targets(pods_per_second=2.0), TURNS, [FAILURE])]
    document = json.loads(report.document({"rounds": 5}, outcomes, BOTH))

    read = document["workloads"]["Case/small"]
    assert document["about"] == {"rounds": 5}
    assert read["figures"]["kube-scheduler"]["pods_per_second"] == {"median": 25.0, "low": 25.0, "high": 25.0}
    assert read["ours_to"]["kube-scheduler"]["pods_per_second"]["median"] == 3.0
    assert read["ours_to"]["kube-scheduler"]["nodes_used"] is None
    assert [t["contender"] for t in read["turns"]] == ["ours", "kube-scheduler", "kube-scheduler", "ours"]
    assert read["failures"][0]["reason"] == "3 of 101 pods were bound"
