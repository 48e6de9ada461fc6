"""Retry-After headers: both forms of RFC 9110, and malformed values."""

from __future__ import annotations

import pytest

from pyscheduler.kube.headers import LONGEST_WAIT, retry_after

NOW = 784_111_777.0
"""Sun, 06 Nov 1994 08:49:37 GMT, the date of RFC 9110's examples."""


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        ("7", 7.0),
        (" 7\t", 7.0),
        ("3600", LONGEST_WAIT),
        ("9" * 400, LONGEST_WAIT),
        ("9" * 50_000, LONGEST_WAIT),
        ("Sun, 06 Nov 1994 08:49:42 GMT", 5.0),
        ("Sunday, 06-Nov-94 08:49:42 GMT", 5.0),
        ("Sun Nov  6 08:49:42 1994", 5.0),
        ("Sun, 06 Nov 1994 07:00:00 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST_WAIT),
    ],
)
def test_retry_after_is_parsed_in_both_forms_and_limited(value: str, seconds: float) -> None:
    assert retry_after(value, NOW) == seconds


@pytest.mark.parametrize(
    "value",
    [
        *(
            "",
            "\u00b2",
            "\u0663",
            "-1",
            "+1",
            "1.5",
            "1e3",
            "1_0",
            "0x10",
            "inf",
            "nan",
            "1 2",
            "soon",
            "1,2",
            "\u00a07",
        ),
        *(
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 99 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 19940 08:49:37 GMT",
            "\x00",
            "7\n",
        ),
    ],
)
def test_malformed_retry_after_is_ignored(value: str) -> None:
    assert retry_after(value, NOW) is None
