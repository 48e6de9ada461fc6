"""`pyscheduler bench plugin`: a table of calls, the cost of a decision, and a claim in `reads` that is too large."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pyscheduler.cli.bench import bench
from pyscheduler.cli.problems import CommandProblem
from pyscheduler.config.problems import ConfigError


def run(plugin: str, *options: str) -> Result:
    return CliRunner().invoke(bench, ["plugin", f"tests.unit.cli.costly:{plugin}", "--nodes", "30", *options])


def test_table_has_the_extension_points_in_both_forms_and_the_cost_of_a_decision() -> None:
    shown = run("Roomy")
    assert shown.exit_code == 0
    assert "plain form, 30 nodes" in shown.output
    filters = next(line for line in shown.output.splitlines() if line.startswith("Filter"))
    assert "not written" in filters
    assert "One decision on 30 nodes: " in shown.output


@pytest.mark.parametrize(
    ("plugin", "enough"),
    [("Roomy", "OWN_NODE_AND_PODS"), ("Sums", "DOMAINS"), ("Labelled", ""), ("Timed", ""), ("Counts", "")],
)
def test_needless_claim_to_read_everything_is_named(plugin: str, enough: str) -> None:
    shown = run(plugin)
    assert shown.exit_code == 0, shown.output
    if enough:
        assert f"reads = Reads.EVERYTHING claims more than this pod needs: with Reads.{enough} " in shown.output
    else:
        assert "claims more" not in shown.output


def test_plugins_of_kube_scheduler_are_measured_by_name() -> None:
    shown = CliRunner().invoke(bench, ["plugin", "NodeResourcesFit", "--nodes", "30"])
    assert shown.exit_code == 0
    assert "with NodeResourcesFit" in shown.output


def test_args_pod_and_node_come_from_options(tmp_path: Path) -> None:
    pod, node = tmp_path / "pod.yaml", tmp_path / "node.yaml"
    pod.write_text("metadata: {labels: {app: a}}\nspec: {containers: [{name: c, image: x}]}\n")
    node.write_text("metadata: {labels: {gpu: a100}}\n")
    assert run("Roomy", "--args", '{"most": 50}', "--pod", str(pod), "--node", str(node)).exit_code == 0


def test_plugin_that_fails_is_reported_in_one_line_with_the_line_of_its_code() -> None:
    problem = run("Roomy", "--args", '{"most": 0}').exception
    assert isinstance(problem, CommandProblem)
    assert str(problem).startswith("plugin Roomy failed: AssertionError (")
    assert "costly.py:" in str(problem)


def test_plugin_that_does_not_exist_is_a_problem_of_the_configuration() -> None:
    assert isinstance(run("Nothing").exception, ConfigError)
