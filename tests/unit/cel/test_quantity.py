"""Quantities of CEL: canonical texts, representations, and exponents that no computer can hold."""

from __future__ import annotations

import pytest

from pyscheduler.cel import CelError, limits
from pyscheduler.cel.quantity import OUT_OF_RANGE, Quantity, add, parse_quantity, subtract


def _quantity(text: str) -> Quantity:
    parsed = parse_quantity(text)
    assert isinstance(parsed, Quantity), parsed
    return parsed


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1024Ki", "1Mi"),
        ("1500m", "1500m"),
        ("0.5", "500m"),
        ("1e3", "1e3"),
        ("1000", "1k"),
        ("1024", "1024"),
        ("0Gi", "0"),
        ("1.5Gi", "1536Mi"),
        ("0.1n", "1n"),
        ("-1.5", "-1500m"),
        ("512Mi", "512Mi"),
        ("9223372036854775808Ki", "9223372036854775807"),
    ],
)
def test_canonical_text_is_apimachinery_text(text: str, canonical: str) -> None:
    assert _quantity(text).canonical() == canonical


@pytest.mark.parametrize(
    ("text", "integer"),
    [("5", 5), ("1k", 1000), ("10Gi", 10 * 2**30), ("1500m", None), ("100Ti", None), ("1e18", 10**18), ("1e19", None)],
)
def test_integer_depends_on_the_representation(text: str, integer: int | None) -> None:
    assert _quantity(text).as_integer() == integer


def test_comparison_changes_the_representation_until_the_evaluation_ends() -> None:
    limits.start()
    quantity = _quantity("5")
    assert quantity.compare(_quantity("100Ti")) == -1
    assert quantity.as_integer() is None
    limits.start()
    assert quantity.as_integer() == 5


def test_sum_keeps_the_format_unless_it_begins_at_zero() -> None:
    assert str(add(_quantity("1Gi"), _quantity("1G"))) == "2073741824"
    assert str(add(_quantity("0"), _quantity("2Gi"))) == "2Gi"
    assert str(subtract(_quantity("1"), _quantity("1500m"))) == "-500m"


def test_result_of_a_sum_equals_nothing_on_the_right() -> None:
    total = add(_quantity("1"), _quantity("1"))
    assert isinstance(total, Quantity)
    assert total.equal(_quantity("2")) is True
    assert isinstance(_quantity("2").equal(total), CelError)


def test_huge_exponents_compare_and_do_not_add() -> None:
    huge = _quantity("1e2000000000")
    assert huge.compare(_quantity("9e1999999999")) == 1
    assert add(huge, _quantity("1")) is OUT_OF_RANGE
    assert parse_quantity(f"{'9' * 30}e2000000000") is OUT_OF_RANGE
    assert _quantity("1e-2000000000").canonical() == "1e-9"
