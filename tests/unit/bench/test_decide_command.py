"""Options of `bench decide`, and the comparison of two checkouts."""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path
from types import ModuleType

import click
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from bench.decide import command, comparison, main
from bench.decide.measurement import Figure, MixedTreesError, check_one_tree
from bench.decide.results import Results
from bench.decide.scenarios import SCENARIOS

TINY = ["--nodes", "8", "--pods", "4", "--rounds", "1", "--scale", "0.01"]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def figure(name: str, median: float) -> Figure:
    return Figure(name, 8, median, median, median)


def test_list_has_a_sentence_for_each_scenario() -> None:
    output = run("--list").output
    for scenario in SCENARIOS.values():
        assert scenario.name in output
        assert scenario.sentence in output


def test_scenarios_are_measured_in_other_processes_and_written_as_json(tmp_path: Path) -> None:
    result = run("--scenario", "preemption", *TINY, "--nodes", "16,8", "--json", str(tmp_path / "figures.json"))

    assert result.exit_code == 0, result.output
    written = Results.read(tmp_path / "figures.json")
    names = ["preemption: first", "preemption: equal", "preemption: different"]
    assert [(f.name, f.nodes) for f in written.figures] == [(name, size) for size in (8, 16) for name in names]
    assert "preemption: equal" in result.output


def test_kinds_of_pods_are_still_chosen_by_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "measure_in_new_process", lambda name, _size: [figure(name, 1.0)])

    output = run("--pod-specs", "nothing,spread-hard").output

    assert [name for name in SCENARIOS if f" {name} " in output] == ["nothing", "spread-hard"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--scenario", "nonsense"), "there is no nonsense; use nothing, mixed,"),
        (("--pod-specs", "templates"), "there is no templates; use nothing, mixed,"),
        (("--nodes", "5000,many"), "5000,many is not a list of numbers such as 5000,50000"),
    ],
)
def test_wrong_option_is_named(arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_failed_scenario_does_not_end_the_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail_claims(name: str, _size: object) -> list[Figure]:
        if name == "claims":
            raise AttributeError("no such event")
        return [figure(name, 1.0)]

    monkeypatch.setattr(command, "measure_in_new_process", fail_claims)

    result = run("--scenario", "claims,templates", "--json", str(tmp_path / "figures.json"))

    assert result.exit_code == 1
    written = Results.read(tmp_path / "figures.json")
    assert written == Results([figure("templates", 1.0)], {"claims": "AttributeError: no such event"})


def test_figures_are_written_as_a_plot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(command, "measure_in_new_process", lambda name, _size: [figure(name, 20.0)])

    result = run("--scenario", "claims", "--svg", str(tmp_path / "plot.svg"), "--html", str(tmp_path / "plot.html"))

    assert result.exit_code == 0, result.output
    svg = (tmp_path / "plot.svg").read_text()
    for shown in ("claims, 8 nodes", ">20<", "median of the rounds, µs"):
        assert shown in svg
    assert svg in (tmp_path / "plot.html").read_text()


def test_ratios_of_two_checkouts_are_written_as_a_plot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    base = Results([figure("claims", 100.0)], {})
    turns = [(base, Results([figure("claims", here)], {})) for here in (116.0, 120.0, 150.0)]
    monkeypatch.setattr(comparison, "compare", lambda _base, _options, _turns: turns)

    result = run("--scenario", "claims", "--compare", str(tmp_path), "--svg", str(tmp_path / "plot.svg"))

    assert result.exit_code == 1
    svg = (tmp_path / "plot.svg").read_text()
    assert "1.2 (1.16 to 1.5) SLOWER" in svg
    assert "here / base, less is better" in svg


@pytest.mark.parametrize("option", ["--json", "--svg", "--html"])
def test_file_that_cannot_be_written_is_an_error_before_the_measurement(
    option: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(command, "measure_in_new_process", lambda _name, _size: pytest.fail("measured"))

    result = run(option, str(tmp_path / "missing" / "file"))

    assert result.exit_code == 2
    assert "does not exist" in " ".join(result.output.split())


def test_planted_slow_row_is_marked() -> None:
    base = Results([figure("claims", 100.0), figure("templates", 100.0)], {})
    here = Results([figure("claims", 116.0), figure("templates", 114.0)], {})

    found = comparison.ratios([(base, here)] * 3)

    assert [(row.name, row.is_slower) for row in found] == [("claims", True), ("templates", False)]
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(comparison.ratio_table(found))
    marked = [line for line in console.export_text().splitlines() if "SLOWER" in line]
    assert len(marked) == 1
    assert "claims" in marked[0]


def test_ratio_is_the_median_of_the_turns() -> None:
    turns = [
        (Results([figure("claims", base)], {}), Results([figure("claims", here)], {}))
        for base, here in ((100.0, 100.0), (200.0, 220.0), (50.0, 100.0))
    ]
    [row] = comparison.ratios(turns)
    assert row.ratio == 1.1


def test_row_is_not_marked_if_only_the_machine_was_slower() -> None:
    base, here = Figure("claims", 5000, 100.0, 98.0, 0.0), Figure("claims", 5000, 160.0, 101.0, 0.0)
    [row] = comparison.ratios([(Results([base], {}), Results([here], {}))])
    assert (row.ratio, round(row.fastest, 2)) == (1.6, 1.03)
    assert not row.is_slower


def test_scenario_that_the_base_cannot_run_is_left_out() -> None:
    base = Results([figure("templates", 100.0)], {"claims": "AttributeError: no such event"})
    here = Results([figure("claims", 100.0), figure("templates", 100.0)], {})

    assert [row.name for row in comparison.ratios([(base, here)])] == ["templates"]
    assert comparison.left_out([(base, here)]) == {"claims": "base: AttributeError: no such event"}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Another checkout: the package of this one, and copies of its benchmark and its plugins."""
    (tmp_path / "pyscheduler").symlink_to(comparison.CHECKOUT / "pyscheduler")
    shutil.copytree(comparison.CHECKOUT / "bench", tmp_path / "bench")
    shutil.copytree(comparison.CHECKOUT / "plugins", tmp_path / "plugins")
    return tmp_path


def test_planted_slowness_of_a_tree_is_marked(base: Path) -> None:
    pods = base / "bench" / "decide" / "cluster.py"
    slow = (
        "commands = [c for _ in range(1) if not sum(range(1_000_000)) < 0 for c in self.machine.cycle(self.now) or []]"
    )
    planted = pods.read_text().replace("commands = self.machine.cycle(self.now) or []", slow)
    assert slow in planted
    pods.write_text(planted)

    [(slow_base, here)] = comparison.compare(base, ["--scenario", "new-template", *TINY], turns=1)

    [row] = comparison.ratios([(here, slow_base)])
    assert row.is_slower
    [row] = comparison.ratios([(slow_base, here)])
    assert not row.is_slower


def test_scenario_that_the_base_does_not_have_is_left_out(base: Path) -> None:
    table = base / "bench" / "decide" / "scenarios" / "__init__.py"
    table.write_text(table.read_text().replace('"claims"', '"old-claims"'))

    result = run("--scenario", "new-template,claims", *TINY, "--compare", str(base), "--turns", "1")

    assert "claims is left out: base: UnknownScenarioError: claims" in result.output
    assert [name for name in SCENARIOS if f" {name} " in result.output.partition("left out")[0]] == ["new-template"]


def test_another_checkout_is_measured_with_its_own_plugins(base: Path) -> None:
    package = base / "plugins" / "pyscheduler_plugins"
    with (package / "__init__.py").open("a") as file:
        file.write("\nimport pathlib\npathlib.Path(__file__).with_name('imported').touch()\n")
    [(with_base, here)] = comparison.compare(base, ["--scenario", "new-template", *TINY], turns=1)
    assert (package / "imported").exists()
    assert (with_base.failed, here.failed) == ({}, {})


def test_checkout_without_plugins_is_not_measured_with_those_of_another(base: Path) -> None:
    shutil.rmtree(base / "plugins")
    [(with_base, _)] = comparison.compare(base, ["--scenario", "new-template", *TINY], turns=1)
    assert with_base.failed["new-template"].startswith("MixedTreesError: pyscheduler_plugins is missing in ")


def test_compare_fails_if_a_tree_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "pyscheduler").mkdir()
    (tmp_path / "pyscheduler" / "__init__.py").write_text("raise ImportError")

    with pytest.raises(click.ClickException, match="ended with exit code 1"):
        comparison.compare(tmp_path, ["--scenario", "new-template", *TINY], turns=1)


@pytest.mark.parametrize("package", ["pyscheduler", "pyscheduler_plugins"])
def test_modules_of_another_tree_are_an_error(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_one_tree()
    module = ModuleType(f"{package}.elsewhere")
    module.__file__ = f"/elsewhere/{package}/elsewhere.py"
    monkeypatch.setitem(sys.modules, f"{package}.elsewhere", module)

    with pytest.raises(MixedTreesError, match=rf"{package}\.elsewhere is missing in .* loaded from /elsewhere/"):
        check_one_tree()
