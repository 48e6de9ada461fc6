"""Durations, defaults and strict decoding without a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import pytest

from pyscheduler.api.objects import NodeAffinity, Toleration
from pyscheduler.config.decode import decode
from pyscheduler.config.durations import format_duration, parse_duration
from pyscheduler.config.encode import encode
from pyscheduler.config.fields import ZERO_IS_DEFAULT, Seconds, camel
from pyscheduler.config.problems import Report


@pytest.mark.parametrize(
    ("text", "seconds", "shown"),
    [
        ("15s", 15, "15s"),
        ("1m30s", 90, "1m30s"),
        ("90s", 90, "1m30s"),
        ("1.5h", 5400, "1h30m0s"),
        ("500ms", 0.5, "500ms"),
        ("1s500ms", 1.5, "1.5s"),
        ("-10s", -10, "-10s"),
        ("0", 0, "0s"),
        ("2h0m1s", 7201, "2h0m1s"),
        ("250us", 0.00025, "250µs"),
        ("60s", 60, "1m0s"),
        ("1h", 3600, "1h0m0s"),
        ("7ns", 7e-9, "7ns"),
    ],
)
def test_durations_are_parsed_and_formatted_as_in_go(text: str, seconds: float, shown: str) -> None:
    assert parse_duration(text) == pytest.approx(seconds)
    assert format_duration(seconds) == shown
    assert parse_duration(shown) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "15", "s", "1 s", "1m30", "1d", "--1s", "1s\n", "1" * 200_000], ids=lambda text: repr(text[:8])
)
def test_invalid_duration_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration such as"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("name", "key"), [("lease_duration", "leaseDuration"), ("name", "name"), ("class_", "class"), ("a_2_b", "a2B")]
)
def test_keys_are_camel_case(name: str, key: str) -> None:
    assert camel(name) == key


@dataclass(frozen=True)
class Inner:
    size: int = 3


@dataclass(frozen=True)
class Outer:
    wait: Seconds | None = None
    inner: Inner = Inner()
    many: list[Inner] = field(default_factory=list)
    tags: frozenset[str] = frozenset()
    either: str | int = "none"
    lock: Annotated[str, ZERO_IS_DEFAULT] = "leases"
    toleration: Toleration | None = None


FULL = {
    "wait": "1m0s",
    "inner": {"size": 1},
    "many": [{"size": 2}, {}],
    "tags": ["a", "b"],
    "either": 5,
    "lock": "mine",
    "toleration": {"key": "k", "operator": "Exists", "value": "", "effect": ""},
}


def test_nested_record_is_decoded_and_encoded() -> None:
    report = Report()
    outer = decode(Outer, FULL, "", report)
    assert report.problems == []
    assert outer == Outer(
        60.0, Inner(1), [Inner(2), Inner()], frozenset("ab"), 5, "mine", Toleration(key="k", operator="Exists")
    )
    assert encode(outer) == {**FULL, "many": [{"size": 2}, {"size": 3}]}


def test_null_and_zero_values_give_the_default() -> None:
    report = Report()
    assert decode(Outer, {"wait": None, "inner": None, "many": None, "lock": ""}, "", report) == Outer()
    assert report.problems == []


def test_invalid_fields_get_their_defaults_and_all_are_reported() -> None:
    report = Report()
    outer = decode(Outer, {"inner": {"size": "big"}, "many": [1, "x"], "either": [], "tags": "ab"}, "", report)
    assert outer == Outer()
    assert [str(p) for p in report.problems] == [
        'inner.size: must be a whole number, not "big"',
        "many[0]: must be a mapping, not 1",
        'many[1]: must be a mapping, not "x"',
        'tags: must be a list, not "ab"',
        "either: a list is none of: text, a whole number",
    ]


def test_api_structs_are_decoded_strictly() -> None:
    report = Report()
    term = {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operatr": "In"}]}}
    decode(NodeAffinity, {"preferredDuringSchedulingIgnoredDuringExecution": [term]}, "", report)
    path = "preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0]"
    assert [str(p) for p in report.problems] == [
        f'{path}.operatr: unknown field "operatr"; did you mean "operator"?',
        f"{path}.operator: is required",
    ]


def test_validation_error_of_an_invalid_field_is_not_reported_again() -> None:
    @dataclass(frozen=True)
    class Checked:
        low: int = 0
        high: int = 9

        def __post_init__(self) -> None:
            raise ValueError("[low: is wrong, high: is wrong, too]")

    report = Report()
    assert decode(Checked, {"low": "x"}, "args", report) is None
    assert [str(p) for p in report.problems] == [
        'args.low: must be a whole number, not "x"',
        "args.high: is wrong, too",
    ]
