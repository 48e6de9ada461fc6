"""Hypothesis profile and command line options of all tests: the same examples in every run, without deadlines."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("pyscheduler", derandomize=True, deadline=None, database=None)
settings.load_profile("pyscheduler")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --control-plane."""
    choices, text = ("embedded", "real"), "control plane for tests that need a cluster"
    parser.addoption("--control-plane", choices=choices, default="embedded", help=text)
