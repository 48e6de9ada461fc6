"""Quantities are rounded up as in Kubernetes; invalid ones raise QuantityError."""

from __future__ import annotations

import pytest

from pyscheduler.api.quantity import MAX_INT64, QuantityError, milli_value, value


@pytest.mark.parametrize(
    ("text", "units", "thousandths"),
    [
        ("0", 0, 0),
        ("1", 1, 1000),
        (2, 2, 2000),
        (0.5, 1, 500),
        ("100m", 1, 100),
        ("100.5m", 1, 101),
        ("1.5", 2, 1500),
        (".5", 1, 500),
        ("5.", 5, 5000),
        ("1k", 1000, 10**6),
        ("1Ki", 1024, 1024000),
        ("1.5Gi", 3 * 2**29, 3 * 2**29 * 1000),
        ("0.5Ki", 512, 512000),
        ("128974848", 128974848, 128974848000),
        ("1e3", 1000, 10**6),
        ("1E3", 1000, 10**6),
        ("1E", 10**18, MAX_INT64),
        ("12e-1", 2, 1200),
        ("1n", 1, 1),
        ("1u", 1, 1),
        ("2000000u", 2, 2000),
        ("+1", 1, 1000),
        ("-1.5", -2, -1500),
        ("-100.5m", -1, -101),
        ("8Ei", MAX_INT64, MAX_INT64),
        ("9e30", MAX_INT64, MAX_INT64),
    ],
)
def test_quantities_are_rounded_up_and_saturate(text: str | int | float, units: int, thousandths: int) -> None:
    assert (value(text), milli_value(text)) == (units, thousandths)


@pytest.mark.parametrize(
    "text",
    ["", " ", "one", "1.2.3", "1 Gi", "1gi", "1K", "1mm", "--1", "e3", "1e", "1e+-3", "1e²", "1e999", "²", "٣", "0x10"],
)
def test_invalid_text_is_quoted_in_the_error(text: str) -> None:
    with pytest.raises(QuantityError) as error:
        value(text)
    assert repr(text) in str(error.value)
    assert "\n" not in str(error.value)


def test_quantity_of_a_thousand_digits_raises_quantity_error() -> None:
    with pytest.raises(QuantityError):
        value("9" * 1000)
    with pytest.raises(QuantityError):
        value("1e" + "9" * 1000)
