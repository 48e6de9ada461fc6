"""Decisions are the same without any part of the result cache, so only their cost is compared."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from bench.ablation import DEFAULT, PARTS, leave_out, main
from bench.decide.cluster import Cluster, Size
from bench.decide.scenario import Row
from bench.decide.scenarios import SCENARIOS
from pyscheduler.cli.progress_bar import ProgressBar
from pyscheduler.core.commands import Bind

TINY = Size(nodes=8, pods=4, rounds=1, scale=0.01)


def nodes_chosen(scenario: str) -> list[tuple[str, str]]:
    cluster = Cluster(TINY, ProgressBar(scenario), TINY.nodes, SCENARIOS[scenario].config)
    found = []
    for part in SCENARIOS[scenario].set_up(cluster):
        assert isinstance(part, Row)
        for count in (part.warm_up, TINY.pods):
            commands = [command for action in part.prepare(count) for command in action()]
            found += [(command.pod.name, command.node_name) for command in commands if isinstance(command, Bind)]
            part.finish(commands)
    return found


WITH_ALL_PARTS = {name: nodes_chosen(name) for name in DEFAULT.split(",")}


@pytest.mark.parametrize("part", PARTS)
def test_decisions_are_the_same_without_a_part(part: str) -> None:
    with leave_out(part):
        assert {name: nodes_chosen(name) for name in WITH_ALL_PARTS} == WITH_ALL_PARTS


def test_table_has_a_column_for_each_part() -> None:
    options = "--nodes 50 --scenario nothing --part TopScores --rounds 1"
    result = CliRunner().invoke(main, options.split())
    assert result.exit_code == 0, result.output
    assert "TopScores" in result.output
    assert "nothing: own labels" in result.output


@pytest.mark.parametrize(
    ("options", "problem"), [("--scenario none", "there is no none"), ("--nodes many", "is not a list of numbers")]
)
def test_unknown_scenario_or_number_of_nodes_is_an_error(options: str, problem: str) -> None:
    result = CliRunner().invoke(main, options.split())
    assert (result.exit_code, problem in " ".join(result.output.split())) == (2, True)
