"""Every field, default and error of the configuration, row by row, beside what kube-scheduler 1.36 makes of it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pyscheduler.config.load import ConfigError, loads, show
from pyscheduler.config.problems import Problem
from pyscheduler.config.types import KubeSchedulerConfiguration
from tests.unit.config.row import Row, agrees, at, view
from tests.unit.config.table import ACCEPTED, KUBE, OURS, ROWS, WRONG, recorded

RECORDED = recorded()


def _id(row: Row) -> str:
    return row.id


def told(row: Row) -> list[Problem]:
    """What is wrong with a row's file, with lines."""
    with pytest.raises(ConfigError) as caught:
        loads(row.text)
    return list(caught.value.problems)


def test_each_row_has_a_name_of_its_own() -> None:
    assert len({row.id for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ACCEPTED, ids=_id)
def test_what_is_said_and_what_is_not_comes_out(row: Row) -> None:
    values = view(loads(row.text))
    assert {path: at(values, path) for path in row.gives} == dict(row.gives)


@pytest.mark.parametrize("row", ACCEPTED, ids=_id)
def test_what_is_shown_loads_again_to_the_same(row: Row) -> None:
    loaded = loads(row.text)
    again = loads(show(loaded))
    assert view(again) == view(loaded)
    assert show(again) == show(loaded)


@pytest.mark.parametrize("row", WRONG, ids=_id)
def test_what_is_wrong_is_told_in_full_with_path_and_line(row: Row) -> None:
    problems = told(row)
    assert sorted(str(p) for p in problems) == sorted(row.says)
    assert all(p.line for p in problems)


@pytest.mark.parametrize("row", ROWS, ids=_id)
def test_kube_scheduler_says_the_same(row: Row) -> None:
    """As recorded; tests/e2e/test_configuration.py compares it with the real program."""
    said, ours = RECORDED[row.id][KUBE], RECORDED[row.id][OURS]
    assert sorted(ours) == sorted(row.says), "python -m tests.unit.config.table writes down what is said now"
    if row.verdict:
        assert bool(said) != bool(row.says)
    elif row.words:
        assert said
        assert not agrees(said, told(row)), "the same words after all"
    elif row.says:
        assert agrees(said, told(row)), said
    else:
        assert said == ""


def test_nothing_is_recorded_that_is_no_row() -> None:
    assert list(RECORDED) == [row.id for row in ROWS]


def test_every_field_has_a_row_that_sets_it() -> None:
    said = [at_top for row in ACCEPTED for at_top in row.gives]
    fields = KubeSchedulerConfiguration.__struct_encode_fields__
    assert [f for f in fields if not any(path.startswith(f) for path in said)] == []
    assert replace(loads(ACCEPTED[0].text).configuration) == KubeSchedulerConfiguration()


AGREEMENT = [
    pytest.param("a: b", ["a: b"], True, id="word for word"),
    pytest.param(
        "[x.y: Invalid value: 1: no, z: Required value]",
        ["z: Required value", "x.y: Invalid value: 1: no"],
        True,
        id="several",
    ),
    pytest.param("[x: no, y: no]", ["x: no"], False, id="one is missing here"),
    pytest.param("x: no", ["x: no", "y: no"], False, id="one is missing there"),
    pytest.param("x: no", ["x: never"], False, id="other words"),
    pytest.param("", [], False, id="nothing wrong"),
    pytest.param(
        'initializing profiles: creating profile for scheduler name s: ScorePlugin "X" does not exist',
        ['profiles[0].plugins.score.enabled[0].name: ScorePlugin "X" does not exist; did you mean "Y"?'],
        True,
        id="when profiles are made",
    ),
    pytest.param(
        'initializing profiles: creating profile for scheduler name s: initializing plugin "P": [a: no, b: no]',
        ["profiles[0].pluginConfig[0].args.a: no", "profiles[0].pluginConfig[0].args.b: no"],
        True,
        id="when plugins are made",
    ),
    pytest.param(
        'initializing profiles: creating profile for scheduler name s: initializing plugin "P": [a: no, b: no]',
        ["profiles[0].pluginConfig[0].args.a: no"],
        False,
        id="when plugins are made, one is missing",
    ),
]


@pytest.mark.parametrize(("kube", "ours", "same"), AGREEMENT)
def test_what_counts_as_the_same(kube: str, ours: list[str], same: bool) -> None:
    problems = [Problem(path, text) for path, _, text in (line.partition(": ") for line in ours)]
    assert agrees(kube, problems) is same
