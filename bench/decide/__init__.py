"""Scheduling decisions only: CPU time in process, without an API server, for scenarios of a production cluster.

Run `pyscheduler bench decide` (or `make bench-decide`); `--list` shows the scenarios. A scenario is a line of the table
in `scenarios/__init__.py` and a function that sets up a cluster and yields what to measure on it. Warm-up, measurement
and checks are the same for all (`measurement.py`). What is measured is CPU time, so that other processes count only as
far as they slow the cores down.
"""

from bench.decide.command import main

__all__ = ["main"]
