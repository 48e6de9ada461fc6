"""The public interface changes on purpose only: plugins of others depend on it."""

from __future__ import annotations

import pytest

import pyscheduler.api

from .public_api import FILE, describe_modules

HOW = (
    "the public interface has changed. If that is meant, run `python -m tests.unit.api.public_api`,"
    " commit tests/unit/api/public_api.txt with the change, and add a line to CHANGELOG.md"
)


def test_names_and_signatures_are_as_recorded() -> None:
    assert describe_modules().splitlines() == FILE.read_text(encoding="utf-8").splitlines(), HOW


def test_a_renamed_method_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyscheduler.api.FilterPlugin, "filters", pyscheduler.api.FilterPlugin.filter, raising=False)
    assert describe_modules() != FILE.read_text(encoding="utf-8")
