"""What holds for every test: property tests draw the same examples in every run, and are not timed."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("pyscheduler", derandomize=True, deadline=None, database=None)
settings.load_profile("pyscheduler")
