"""Turns built from the fields that matter to a test."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bench.balance import Balance
from bench.burst import Burst
from bench.contender_run import ContenderRun

_PLAIN = ContenderRun(
    contender="ours",
    round=1,
    pods=101,
    bound_in=1.0,
    ready=0.98,
    first_bind=1.0,
    last_bind=2.0,
    last_event=3.0,
    events=101,
    cpu=0.101,
    api_server_cpu=0.202,
    etcd_cpu=0.0505,
    watch_cpu=0.01,
    burst=Burst(own=0.1, api_server=0.2, etcd=0.05, bench=0.05),
    peak_memory=64 * 2**20,
    attempt_p50=0.002,
    attempt_p99=0.004,
    pending_p50=0.1,
    pending_p99=0.9,
    balance=Balance(101, 1, 0.0, 0.0),
    load=2.0,
    others=0.25,
)


def turn(contender: str = "ours", number: int = 1, **changes: Any) -> ContenderRun:
    """Return a turn with 101 pods bound within a second."""
    return replace(_PLAIN, contender=contender, round=number, **changes)
