"""What people and programs are given to read."""

from __future__ import annotations

import json

from bench import report
from tests.unit.bench.turns import turn

TURNS = [
    turn("ours", 1, bound_in=1.0),
    turn("theirs", 1, bound_in=4.0),
    turn("theirs", 2, bound_in=4.0),
    turn("ours", 2, bound_in=2.0, load=7.25, others=1.5),
]
BOTH = ["ours", "theirs"]


def test_a_row_has_the_figures_of_all_and_the_ratios_of_the_first() -> None:
    header, speed = report.figures(TURNS, BOTH)[:2]

    assert header == ["median (least to most)", "ours", "theirs", "ours / theirs"]
    assert speed == ["pods/s, first bind to last", "75 (50 to 100)", "25", "3.00 (2.00 to 4.00)"]


def test_what_a_contender_lacks_is_a_dash() -> None:
    rows = report.figures([turn("ours"), turn("theirs", attempt_p50=None)], BOTH)

    assert next(row for row in rows if row[0].startswith("attempt p50")) == ["attempt p50, ms", "2.0", "-", "-"]


def test_one_contender_alone_has_no_ratios() -> None:
    assert all(len(row) == 2 for row in report.figures(TURNS, ["ours"]))


def test_turns_are_listed_in_order_with_what_else_went_on() -> None:
    rows = report.rounds(TURNS)

    assert [row[:3] for row in rows[1:3]] == [["1", "ours", "100"], ["1", "theirs", "25"]]
    assert rows[4] == ["2", "ours", "50", "1.000", "7.2", "1.50"]


def test_markdown_has_numbers_to_the_right() -> None:
    text = report.markdown("A title", [["what", "ours"], ["speed", "75"]], [["round"], ["1"]])

    assert text == "## A title\n\n| what | ours |\n| --- | ---: |\n| speed | 75 |\n\n| round |\n| --- |\n| 1 |\n"


def test_the_terminal_gets_the_same_rows() -> None:
    made = report.table("A title", report.figures(TURNS, BOTH))

    assert made.row_count == len(report.figures(TURNS, BOTH)) - 1
    assert [str(column.header) for column in made.columns][1:] == ["ours", "theirs", "ours / theirs"]


def test_json_has_the_figures_and_the_turns_they_come_from() -> None:
    read = json.loads(report.document({"nodes": 5}, TURNS, BOTH))

    assert read["about"] == {"nodes": 5}
    assert read["figures"]["theirs"]["pods_per_second"] == {"median": 25.0, "low": 25.0, "high": 25.0}
    assert read["ours_to"]["theirs"]["pods_per_second"]["median"] == 3.0
    assert read["ours_to"]["theirs"]["nodes_used"] is None
    assert [t["contender"] for t in read["turns"]] == ["ours", "theirs", "theirs", "ours"]
    assert read["turns"][0]["balance"] == {"nodes_used": 101, "most_on_a_node": 1, "deviation": 0.0}
