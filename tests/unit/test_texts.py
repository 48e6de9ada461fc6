"""Texts of plugins are available and encodable, whatever `__str__` and `__repr__` do."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest

from pyscheduler.texts import encodable, text_of


class Reason(StrEnum):
    FULL = "full"


class Unprintable(Exception):
    """Exception with conversions that fail in the way of `how`."""

    def __init__(self, how: Any) -> None:
        self.how = how

    def __str__(self) -> Any:
        if isinstance(self.how, BaseException):
            raise self.how
        return self.how

    __repr__ = __str__


@pytest.mark.parametrize(
    ("text", "written"),
    [("abc", "abc"), ("é😀", "é😀"), ("a\udce9b", "a?b"), ("é\ud800", "é?"), (Reason.FULL, "full")],
    ids=ascii,
)
def test_lone_surrogates_are_replaced(text: str, written: str) -> None:
    assert encodable(text) == written
    assert type(encodable(text)) is str


@pytest.mark.parametrize("convert", [str, repr])
@pytest.mark.parametrize("how", [ValueError("x"), SystemExit(3), KeyboardInterrupt(), 7, None], ids=repr)
def test_failing_conversion_is_named(how: Any, convert: Any) -> None:
    assert text_of(Unprintable(how), convert) == f"<Unprintable {convert.__name__}() failed>"


def test_text_of_an_object_is_encodable() -> None:
    assert text_of(Unprintable("\udce9")) == "?"
    assert text_of(10**5000, repr) == "<int repr() failed>"
