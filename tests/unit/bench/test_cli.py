"""`pyscheduler bench`: what it says, and what it says where it cannot work."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from pyscheduler.cli import bench
from pyscheduler.cli.problems import CommandProblem


def run(*arguments: str) -> tuple[int, str, BaseException | None]:
    """Exit code, output and what was raised."""
    result = CliRunner().invoke(bench.bench, arguments)
    return result.exit_code, result.output, result.exception


def test_outside_of_a_checkout_it_says_where_it_works(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bench, "_CHECKOUT", tmp_path)

    _, _, problem = run("list")

    assert isinstance(problem, CommandProblem)
    assert str(problem).startswith("bench works in a checkout of the source only")


def test_the_list_shows_sizes_and_targets() -> None:
    code, output, _ = run("list", "--workload", "ColdStart")

    assert code == 0
    assert "ColdStart/5000Nodes_100000Pods" in output
    assert "100,000" in output
    assert "first_bind_seconds 1" in output


def test_an_unknown_workload_is_one_line() -> None:
    _, _, problem = run("compare", "--workload", "Nonsense")

    assert isinstance(problem, CommandProblem)
    assert str(problem).startswith("there is no workload Nonsense; there are ")


def test_a_parameter_is_a_name_and_a_number() -> None:
    code, output, _ = run("compare", "--param", "measurePods=many")

    assert code == 2
    assert "measurePods=many is not NAME=NUMBER" in output


def test_decide_has_options_of_its_own() -> None:
    code, output, _ = run("decide", "--help")

    assert code == 0
    assert "--per-node" in output
