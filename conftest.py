"""What holds for every test: property tests draw the same examples in every run, and are not timed."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("pyscheduler", derandomize=True, deadline=None, database=None)
settings.load_profile("pyscheduler")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --control-plane."""
    choices, text = ("embedded", "real"), "what the tests that need a cluster run against"
    parser.addoption("--control-plane", choices=choices, default="embedded", help=text)
