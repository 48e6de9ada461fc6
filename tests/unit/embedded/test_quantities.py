"""Canonical form of quantities."""

from __future__ import annotations

import pytest

from pyscheduler.embedded.admission.quantities import canonical


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("1", "1"),
        (2, "2"),
        (0.5, "500m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("100000", "100k"),
        ("1024", "1024"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("1e3", "1e3"),
        ("0", "0"),
        ("0Gi", "0"),
        ("-1", "-1"),
        ("0.0000000001", "1n"),
        ("5M", "5M"),
    ],
)
def test_canonical_form(given: str | float, expected: str) -> None:
    assert canonical(given) == expected


@pytest.mark.parametrize("given", ["", "x", "1 Gi", "1GiB", "1,5", "--1", "1K"])
def test_malformed_quantity_raises(given: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        canonical(given)
