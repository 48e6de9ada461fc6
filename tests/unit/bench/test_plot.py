"""Plots: what is drawn where, and what a reader finds in the files."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.plot import Bar, BarPanel, Curve, Plot, bar_plot, line_plot

PODS = "scheduling, <500 nodes & 1,000 pods>"
RATIOS = BarPanel("pods/s, ours / theirs", [Bar("basic", 2.0, 1.0, 4.0), Bar(PODS, 0.5, mark="below 1")], 1.0)


def elements(plot: Plot, tag: str, css: str | None = None) -> list[ElementTree.Element]:
    """Return the elements of a plot with this tag and class, in their order."""
    found = ElementTree.fromstring(plot.svg).iter(f"{{http://www.w3.org/2000/svg}}{tag}")
    return [each for each in found if css is None or each.get("class") == css]


def texts(plot: Plot) -> list[str]:
    return [each.text or "" for each in elements(plot, "text")]


def number(element: ElementTree.Element, name: str) -> float:
    return float(element.get(name) or "nan")


def test_bars_are_in_proportion_to_their_values() -> None:
    plot = bar_plot("Ratios", [RATIOS])

    [basic], [marked] = elements(plot, "rect", "bar"), elements(plot, "rect", "marked")
    assert number(basic, "width") == pytest.approx(4 * number(marked, "width"), abs=0.5)
    assert number(basic, "x") == number(marked, "x")


def test_range_and_reference_are_on_the_scale_of_the_bars() -> None:
    plot = bar_plot("Ratios", [RATIOS])

    [basic] = elements(plot, "rect", "bar")
    [reference] = elements(plot, "line", "reference")
    whole, *ends = elements(plot, "line", "range")
    left, per_unit = number(basic, "x"), number(basic, "width") / 2
    assert number(reference, "x1") == pytest.approx(left + per_unit, abs=0.5)
    assert [number(whole, "x1"), number(whole, "x2")] == pytest.approx([left + per_unit, left + 4 * per_unit], abs=0.5)
    assert [number(end, "x1") for end in ends] == [number(whole, "x1"), number(whole, "x2")]


def test_each_bar_has_name_value_range_and_mark_as_text() -> None:
    shown = texts(bar_plot("Ratios", [RATIOS]))

    assert [t for t in shown if t in {"basic", PODS} or " " in t][:4] == ["basic", "2 (1 to 4)", PODS, "0.5 below 1"]
    assert "pods/s, ours / theirs" in shown


def test_missing_value_is_shown_and_not_left_out() -> None:
    plot = bar_plot("Ratios", [BarPanel("pods/s", [Bar("basic", None, mark="theirs failed")])])

    assert "no value, theirs failed" in texts(plot)
    assert not elements(plot, "rect", "bar")


def test_panels_have_scales_of_their_own() -> None:
    plot = bar_plot("Costs", [BarPanel("µs", [Bar("attempt", 80.0)]), BarPanel("MiB", [Bar("memory", 4000.0)])])

    attempt, memory = elements(plot, "rect", "bar")
    assert number(attempt, "width") == number(memory, "width")
    assert number(attempt, "y") < number(memory, "y")
    assert [t for t in texts(plot) if t in {"80", "4,000"}] == ["80", "80", "4,000", "4,000"]  # last tick, value


def test_long_names_fit_beside_the_bars() -> None:
    name = "SchedulingRequiredPodAntiAffinityWithNSSelector/5000Nodes_2000Pods, kube-scheduler"
    [bar] = elements(bar_plot("Speed", [BarPanel("pods/s", [Bar(name, 1.0)])]), "rect", "bar")

    assert number(bar, "x") > 7 * len(name)


@pytest.mark.parametrize(
    ("most", "shown"),
    [
        (4.2, ["0", "2", "4"]),
        (870.0, ["0", "500"]),
        (0.9, ["0", "0.5"]),
        (30_000.0, ["0", "10,000", "20,000", "30,000"]),
    ],
)
def test_ticks_are_round_numbers(most: float, shown: list[str]) -> None:
    plot = bar_plot("Costs", [BarPanel("µs", [Bar("attempt", most)])])

    assert [each.text for each in elements(plot, "text", "middle")] == [*shown, "µs"]


def test_curve_runs_from_the_lower_left_to_its_highest_value() -> None:
    plot = line_plot("Soak", [0.0, 5.0, 10.0], [Curve("memory", "MiB", [0.0, 200.0, 50.0])])

    [frame], [curve] = elements(plot, "rect", "frame"), elements(plot, "polyline", "curve")
    left, top = number(frame, "x"), number(frame, "y")
    right, bottom = left + number(frame, "width"), top + number(frame, "height")
    points = [tuple(map(float, point.split(","))) for point in (curve.get("points") or "").split()]
    assert points == [(left, bottom), ((left + right) / 2, top), (right, bottom - (bottom - top) / 4)]
    assert "memory, MiB" in texts(plot)


@pytest.mark.parametrize(("seconds", "axis", "last"), [(300.0, "time, s", "300"), (3600.0, "time, min", "60")])
def test_time_axis_has_its_unit(seconds: float, axis: str, last: str) -> None:
    plot = line_plot("Soak", [0.0, seconds], [Curve("tasks", "", [1.0, 2.0])])

    shown = [each.text for each in elements(plot, "text", "middle")]
    assert shown[-1] == axis
    assert shown[-2] == last


def test_plot_without_samples_is_still_a_document() -> None:
    plot = line_plot("Soak", [], [Curve("tasks", "", [])])

    assert plot.rows[1] == ["tasks", *["no value"] * 4]
    assert elements(bar_plot("Ratios", []), "svg")
    assert elements(bar_plot("Ratios", [BarPanel("pods/s", [])]), "svg")


def test_page_has_plot_and_figures_and_loads_nothing(tmp_path: Path) -> None:
    bar_plot("Ratios & more", [RATIOS]).write(tmp_path / "plot.svg", tmp_path / "plot.html")

    svg, page = (tmp_path / "plot.svg").read_text(), (tmp_path / "plot.html").read_text()
    assert svg in page
    assert "<title>Ratios &amp; more</title>" in page
    assert "<td>scheduling, &lt;500 nodes &amp; 1,000 pods&gt;</td>" in page
    assert not [link for link in ("href", "src=", "@import", "<script") if link in page]


def test_both_themes_have_colours_for_all_that_is_drawn() -> None:
    plot = bar_plot("Ratios", [RATIOS])

    light, _, dark = plot.svg.partition("prefers-color-scheme: dark")
    for css in ("text", ".paper", ".grid", ".bar", ".marked", ".reference"):
        assert css in light
        assert css in dark.partition("</style>")[0]
