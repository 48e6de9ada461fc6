"""Table of fields, defaults and errors of the configuration, compared with kube-scheduler 1.37."""

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


def problems_of(row: Row) -> list[Problem]:
    """Return the problems of a row's file."""
    with pytest.raises(ConfigError) as caught:
        loads(row.text)
    return list(caught.value.problems)


def test_row_ids_are_unique() -> None:
    assert len({row.id for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ACCEPTED, ids=_id)
def test_accepted_file_has_the_expected_values(row: Row) -> None:
    values = view(loads(row.text))
    assert {path: at(values, path) for path in row.values} == dict(row.values)


@pytest.mark.parametrize("row", ACCEPTED, ids=_id)
def test_shown_configuration_loads_to_the_same_values(row: Row) -> None:
    loaded = loads(row.text)
    again = loads(show(loaded))
    assert view(again) == view(loaded)
    assert show(again) == show(loaded)


@pytest.mark.parametrize("row", WRONG, ids=_id)
def test_rejected_file_has_the_expected_errors_with_path_and_line(row: Row) -> None:
    problems = problems_of(row)
    assert sorted(str(p) for p in problems) == sorted(row.errors)
    assert all(p.line for p in problems)


@pytest.mark.parametrize("row", ROWS, ids=_id)
def test_result_equals_that_of_kube_scheduler(row: Row) -> None:
    """Compares with recorded results; tests/e2e/test_configuration.py runs kube-scheduler."""
    kube_error, ours = RECORDED[row.id][KUBE], RECORDED[row.id][OURS]
    assert sorted(ours) == sorted(row.errors), "outdated: run python -m tests.unit.config.table"
    if row.difference:
        assert bool(kube_error) != bool(row.errors)
    elif row.wording:
        assert kube_error
        assert not agrees(kube_error, problems_of(row)), "the messages agree, remove wording"
    elif row.errors:
        assert agrees(kube_error, problems_of(row)), kube_error
    else:
        assert kube_error == ""


def test_recorded_results_match_the_rows() -> None:
    assert list(RECORDED) == [row.id for row in ROWS]


def test_every_field_has_a_row_that_sets_it() -> None:
    paths = [path for row in ACCEPTED for path in row.values]
    fields = KubeSchedulerConfiguration.__struct_encode_fields__
    assert [f for f in fields if not any(path.startswith(f) for path in paths)] == []
    assert replace(loads(ACCEPTED[0].text).configuration) == KubeSchedulerConfiguration()


AGREEMENT = [
    pytest.param("a: b", ["a: b"], True, id="identical"),
    pytest.param(
        "[x.y: Invalid value: 1: no, z: Required value]",
        ["z: Required value", "x.y: Invalid value: 1: no"],
        True,
        id="several errors",
    ),
    pytest.param("[x: no, y: no]", ["x: no"], False, id="missing in ours"),
    pytest.param("x: no", ["x: no", "y: no"], False, id="missing in kube-scheduler's"),
    pytest.param("x: no", ["x: never"], False, id="different text"),
    pytest.param("", [], False, id="no errors"),
    pytest.param(
        'initializing profiles: creating profile for scheduler name s: ScorePlugin "X" does not exist',
        ['profiles[0].plugins.score.enabled[0].name: ScorePlugin "X" does not exist; did you mean "Y"?'],
        True,
        id="error in profile creation",
    ),
    pytest.param(
        'initializing profiles: creating profile for scheduler name s: initializing plugin "P": [a: no, b: no]',
        ["profiles[0].pluginConfig[0].args.a: no", "profiles[0].pluginConfig[0].args.b: no"],
        True,
        id="errors in plugin initialization",
    ),
    pytest.param(
        'initializing profiles: creating profile for scheduler name s: initializing plugin "P": [a: no, b: no]',
        ["profiles[0].pluginConfig[0].args.a: no"],
        False,
        id="missing error in plugin initialization",
    ),
]


@pytest.mark.parametrize(("kube", "ours", "same"), AGREEMENT)
def test_agreement_of_error_texts(kube: str, ours: list[str], same: bool) -> None:
    problems = [Problem(path, text) for path, _, text in (line.partition(": ") for line in ours)]
    assert agrees(kube, problems) is same
