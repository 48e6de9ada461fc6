"""Objects that all parts of a running backend share."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from pyscheduler.backend.metrics import BackendMetrics
from pyscheduler.backend.problems import Problems


class BackendContext(NamedTuple):
    """Clock (seconds since the epoch), random numbers, current problems and metrics of one backend."""

    clock: Callable[[], float]
    rng: random.Random
    problems: Problems
    metrics: BackendMetrics
    may_call: Callable[[], bool] = lambda: True
    """False while another backend may have the Lease: calls that change pods then fail and are retried."""
