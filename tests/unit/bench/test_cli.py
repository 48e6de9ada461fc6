"""`pyscheduler bench`: output, options and errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from bench import compare
from bench.compare import Plan
from pyscheduler.cli import bench
from pyscheduler.cli.problems import CommandProblem


def run(*arguments: str) -> tuple[int, str, BaseException | None]:
    """Return exit code, output and the exception."""
    result = CliRunner().invoke(bench.bench, arguments)
    return result.exit_code, result.output, result.exception


def test_outside_of_a_checkout_the_error_names_the_requirement(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bench, "_CHECKOUT", tmp_path)

    _, _, problem = run("list")

    assert isinstance(problem, CommandProblem)
    assert str(problem).startswith("bench works in a source checkout only")


def test_list_shows_sizes_and_targets() -> None:
    code, output, _ = run("list", "--workload", "ColdStart")

    assert code == 0
    assert "ColdStart/5000Nodes_100000Pods" in output
    assert "100,000" in output
    assert "first_bind_seconds 1" in output


def test_unknown_workload_is_one_line() -> None:
    _, _, problem = run("compare", "--workload", "Nonsense")

    assert isinstance(problem, CommandProblem)
    assert str(problem).startswith("there is no workload Nonsense; use ")


def test_parameter_is_a_name_and_a_number() -> None:
    code, output, _ = run("compare", "--param", "measurePods=many")

    assert code == 2
    assert "measurePods=many is not NAME=NUMBER" in output


@pytest.mark.parametrize("given", ["fast", "5;20", "-5", "5,", "1.5"])
def test_latency_is_whole_milliseconds(given: str) -> None:
    code, output, _ = run("compare", "--latency", given)

    assert code == 2
    assert "is not a list of milliseconds such as 5,20,50" in output


def test_each_workload_runs_once_per_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[Plan] = []
    monkeypatch.setattr(compare, "run", lambda plan, _: plans.append(plan))

    run("compare", "--latency", "50,100")
    run("compare", "--latency", "20", "--workload", "SchedulingBasic/500Nodes")

    own, other = ([case.name for case in plan.cases] for plan in plans)
    kinds = ("Plain", "Deployment", "Spreading", "Affinity")
    assert own == [f"Latency{kind}/1000Nodes/{latency}ms" for kind in kinds for latency in (50, 100)]
    assert other == ["SchedulingBasic/500Nodes/20ms"]
    assert [case.targets for case in plans[0].cases[:2]] == [{"pods_per_second": 3}, {"pods_per_second": 2}]


def test_decide_has_its_own_options() -> None:
    code, output, _ = run("decide", "--help")

    assert code == 0
    assert "--per-node" in output


def test_files_of_the_results_reach_the_comparison(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    outputs: list[compare.Output] = []
    monkeypatch.setattr(compare, "run", lambda _plan, output: outputs.append(output))
    files = [tmp_path / name for name in ("a.json", "a.md", "a.svg", "a.html")]

    options = ("--json", "--markdown", "--svg", "--html")
    run("compare", *(f"{option}={file}" for option, file in zip(options, files, strict=True)))

    assert outputs == [compare.Output(*files)]
