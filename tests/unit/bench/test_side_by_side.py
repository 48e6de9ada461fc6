"""The command: who takes part, and in which order."""

from __future__ import annotations

import pytest
import typer

from bench.contenders import CONTENDERS
from bench.side_by_side import Plan, chosen
from bench.turn import Size


def test_every_other_round_runs_the_other_way_around() -> None:
    plan = Plan(chosen("pyscheduler,kube-scheduler"), Size(1, 1, 1.0), 2)

    assert [c.name for c in plan.order(1)] == ["pyscheduler", "kube-scheduler"]
    assert [c.name for c in plan.order(2)] == ["kube-scheduler", "pyscheduler"]


def test_all_pods_of_a_contender_are_its_own() -> None:
    assert len({c.scheduler_name for c in CONTENDERS.values()}) == len(CONTENDERS)


def test_an_unknown_contender_is_named_beside_those_there_are() -> None:
    with pytest.raises(typer.BadParameter, match="there is no 'volcano'; there are pyscheduler, kube-scheduler"):
        chosen("pyscheduler,volcano")
