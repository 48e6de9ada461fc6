"""`pyscheduler bench plugin`: table of calls, cost of a decision, and hint at a `reads` that claims too much."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pyscheduler.cli.bench import bench
from pyscheduler.cli.problems import CommandProblem


def run(plugin: str, *options: str) -> Result:
    return CliRunner().invoke(bench, ["plugin", f"tests.unit.cli.costly:{plugin}", "--nodes", "30", *options])


def test_table_has_the_extension_points_in_both_forms_and_the_cost_of_a_decision() -> None:
    result = run("Roomy")
    assert result.exit_code == 0
    assert "plain form, 30 nodes" in result.output
    filter_line = next(line for line in result.output.splitlines() if line.startswith("Filter"))
    assert "not written" in filter_line
    assert "One decision on 30 nodes: " in result.output


@pytest.mark.parametrize(
    ("plugin", "minimal"),
    [("Roomy", "OWN_NODE_AND_PODS"), ("Sums", "DOMAINS"), ("Labelled", ""), ("Timed", ""), ("Counts", "")],
)
def test_smaller_claim_is_suggested_if_it_suffices(plugin: str, minimal: str) -> None:
    result = run(plugin)
    assert result.exit_code == 0, result.output
    if minimal:
        assert f"reads = Reads.EVERYTHING claims more than this pod needs: with Reads.{minimal} " in result.output
    else:
        assert "claims more" not in result.output


def test_in_tree_plugins_are_measured_by_name() -> None:
    result = CliRunner().invoke(bench, ["plugin", "NodeResourcesFit", "--nodes", "30"])
    assert result.exit_code == 0
    assert "with NodeResourcesFit" in result.output


@pytest.mark.parametrize(
    ("plugin", "points"),
    [
        ("PrioritySort", "queueSort"),
        ("QoSSort", "queueSort"),
        ("DefaultBinder", "bind"),
        ("Queues", "quota"),
        ("PodGroups", "podGroup"),
    ],
)
def test_plugin_that_is_no_part_of_a_decision_is_an_error_with_the_points_that_are_measured(
    plugin: str, points: str
) -> None:
    problem = CliRunner().invoke(bench, ["plugin", plugin, "--nodes", "30"]).exception
    assert isinstance(problem, CommandProblem)
    assert str(problem) == (
        f"plugin {plugin} cannot be measured: it has {points} only, and `bench plugin` measures preEnqueue, preFilter,"
        " filter, preScore, score, reserve, permit"
    )


def test_plugin_that_also_sorts_the_queue_is_measured_without_that() -> None:
    result = run("SortsAndFilters")
    assert result.exit_code == 0, result.output
    assert "Filter " in result.output


def test_args_pod_and_node_come_from_options(tmp_path: Path) -> None:
    pod, node = tmp_path / "pod.yaml", tmp_path / "node.yaml"
    pod.write_text("metadata: {labels: {app: a}}\nspec: {containers: [{name: c, image: x}]}\n")
    node.write_text("metadata: {labels: {gpu: a100}}\n")
    assert run("Roomy", "--args", '{"most": 50}', "--pod", str(pod), "--node", str(node)).exit_code == 0


@pytest.mark.parametrize(("option", "kind"), [("--pod", "Deployment"), ("--pod", "Node"), ("--node", "Pod")])
def test_manifest_of_another_kind_is_an_error(tmp_path: Path, option: str, kind: str) -> None:
    file = tmp_path / "manifest.yaml"
    file.write_text(f"kind: {kind}\nmetadata: {{name: a}}\n")
    result = run("Roomy", option, str(file))
    assert result.exit_code == 2
    assert f"kind must be {option[2:].title()}, not {kind}" in result.output


def test_plugin_that_fails_is_reported_in_one_line_with_the_line_of_its_code() -> None:
    problem = run("Roomy", "--args", '{"most": 0}').exception
    assert isinstance(problem, CommandProblem)
    assert str(problem).startswith("plugin Roomy failed: AssertionError (")
    assert "costly.py:" in str(problem)


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        ("ReturnsBool", "plugin ReturnsBool failed: filter returned bool, expected None or Rejection ("),
        (
            "ScoresTooHigh",
            "plugin ScoresTooHigh failed: score returned 1000, expected 0 to 100; set `normalizer`, or scale it (",
        ),
    ],
)
def test_plugin_with_wrong_results_is_an_error_and_not_measured(plugin: str, message: str) -> None:
    result = run(plugin)
    assert isinstance(result.exception, CommandProblem)
    assert str(result.exception).startswith(message)
    assert "costly.py:" in str(result.exception)
    assert "One decision" not in result.output


def test_args_that_are_not_json_are_an_error_of_one_line() -> None:
    problem = run("Roomy", "--args", "{most: 3").exception
    assert isinstance(problem, CommandProblem)
    assert str(problem) == "--args:1:9: not valid YAML: expected ',' or '}', but got '<stream end>'"


def test_error_of_an_unknown_plugin_names_the_command_that_lists_plugins() -> None:
    problem = run("Nothing").exception
    assert isinstance(problem, CommandProblem)
    assert "`pyscheduler plugins list` shows all" in str(problem)
