"""The concurrency limit of bindings keeps a server busy that is near or far, and makes no queue that helps nothing."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import pytest

from pyscheduler.shell.binding.concurrency import (
    EXPECTED_THROUGHPUT,
    FEWEST,
    LARGE_QUEUE,
    LONG_QUEUE,
    MANY,
    MOST,
    RENEW_AFTER,
    SMALL,
    SMALL_QUEUE,
    TOO_LONG,
    ConcurrencyLimit,
)

LARGE = SMALL + 1
"""Nodes."""


@dataclass
class ThroughputServer:
    """Answers `throughput` bindings a second, one after the other, each `latency` seconds away; virtual time.

    A binding that is beyond those in flight so far needs a connection, which takes `setup` round trips more.
    """

    latency: float
    throughput: float = 2000.0
    setup: int = 0
    now: float = 0.0
    most_in_flight: int = 0
    took: list[float] = field(default_factory=list)
    _free_at: float = 0.0

    def bind(self, limit: ConcurrencyLimit, pods: int, nodes: int = SMALL, waiting: int | None = None) -> float:
        """Bind so many pods as fast as the limit allows; how many a second that is."""
        began, in_flight, left = self.now, list[tuple[float, float, int]](), pods
        while left or in_flight:
            ready = left if waiting is None else waiting
            while left and len(in_flight) < limit.limit(ready, nodes):
                left -= 1
                heapq.heappush(in_flight, (self._answered_at(len(in_flight)), self.now, len(in_flight) + 1))
                self.most_in_flight = max(self.most_in_flight, len(in_flight))
            self.now, sent, beside = heapq.heappop(in_flight)
            self.took.append(self.now - sent)
            limit.observe(self.now - sent, beside)
        return pods / (self.now - began)

    def _answered_at(self, in_flight: int) -> float:
        opening = self.setup * self.latency if in_flight >= self.most_in_flight else 0.0
        arrives = self.now + opening + self.latency
        self._free_at = max(self._free_at, arrives) + 1 / self.throughput
        return self._free_at


def observed(seconds: float, in_flight: int, times: int, limit: ConcurrencyLimit | None = None) -> ConcurrencyLimit:
    """A limit after so many bindings that took so long."""
    limit = limit or ConcurrencyLimit()
    for _ in range(times):
        limit.observe(seconds, in_flight)
    return limit


@pytest.mark.parametrize("latency", [0.005, 0.02, 0.05, 0.1])
@pytest.mark.parametrize("nodes", [SMALL, LARGE])
def test_a_server_that_is_far_away_is_kept_as_busy_as_a_near_one(latency: float, nodes: int) -> None:
    limit, server = ConcurrencyLimit(), ThroughputServer(latency)
    server.bind(limit, 4000, nodes)
    assert server.bind(limit, 10_000, nodes, waiting=1) > 0.9 * server.throughput


@pytest.mark.parametrize("latency", [0.005, 0.02, 0.05, 0.1])
def test_first_burst_is_bound_at_half_the_pace_of_the_server_at_least(latency: float) -> None:
    """It would take several round trips to find out how many are needed; the latency of a small read shows it."""
    limit, server = ConcurrencyLimit(), ThroughputServer(latency, setup=2)
    limit.expect(latency)
    assert server.bind(limit, 2000) > 0.5 * server.throughput


@pytest.mark.parametrize(
    ("latency", "in_small", "in_large"),
    [(0.0005, 38, 14), (0.005, 45, 21), (0.02, 75, 56), (0.05, 135, 122), (0.1, 255, 232)],
)
def test_documented_numbers_are_in_flight(latency: float, in_small: int, in_large: int) -> None:
    for nodes, most in ((SMALL, in_small), (LARGE, in_large)):
        limit, server = ConcurrencyLimit(), ThroughputServer(latency)
        limit.expect(latency)
        assert server.bind(limit, 2000, nodes) > 0.9 * server.throughput
        server.bind(limit, 40_000, nodes, waiting=1)
        assert server.most_in_flight == most


@pytest.mark.parametrize(
    ("nodes", "most"), [pytest.param(SMALL, 45, id="small cluster"), pytest.param(LARGE, 20, id="large cluster")]
)
def test_a_server_that_is_near_gets_no_long_queue(nodes: int, most: int) -> None:
    limit, server = ConcurrencyLimit(), ThroughputServer(0.0005)
    assert server.bind(limit, 2000, nodes) > 0.95 * server.throughput
    assert server.most_in_flight <= most


def test_a_server_that_is_far_and_slow_gets_no_long_queue() -> None:
    limit, server = ConcurrencyLimit(), ThroughputServer(0.05, throughput=200)
    limit.expect(0.05)
    server.bind(limit, 2000)
    server.took.clear()
    server.bind(limit, 2000, waiting=1)
    assert max(server.took[500:]) < 0.05 + 1.5 * SMALL_QUEUE / server.throughput


@pytest.mark.parametrize("nodes", [SMALL, LARGE])
def test_a_server_that_moves_away_is_kept_busy_again(nodes: int) -> None:
    limit, server = ConcurrencyLimit(), ThroughputServer(0.001)
    server.bind(limit, 2000, nodes)
    server.latency = 0.05
    server.bind(limit, 6000, nodes, waiting=1)
    assert server.bind(limit, 6000, nodes, waiting=1) > 0.9 * server.throughput


def test_the_queue_does_not_grow_however_long_a_burst_lasts() -> None:
    """Latency under load must not pass for the base latency: each renewal would allow a longer queue."""
    limit, server = ConcurrencyLimit(), ThroughputServer(0.002)
    for _ in range(20):
        server.bind(limit, 4000, LARGE, waiting=1)
    assert server.most_in_flight < 30


def test_base_latency_is_renewed_after_ten_seconds_of_load() -> None:
    limit = observed(0.01, 32, int(RENEW_AFTER * 32 / 0.01) + 2)
    assert limit.limit(1, SMALL) == FEWEST
    limit.observe(0.02, int(FEWEST))
    assert limit.limit(1, SMALL) > SMALL_QUEUE


def test_one_late_answer_changes_little() -> None:
    limit = observed(0.05, 100, 1000)
    before = limit.limit(1, SMALL)
    limit.observe(0.9, 100)
    assert limit.limit(1, SMALL) > 0.95 * before


def test_low_demand_does_not_lower_the_limit() -> None:
    limit = observed(0.05, 100, 1000)
    before = limit.limit(1, SMALL)
    observed(0.05, 3, 1000, limit)
    assert limit.limit(1, SMALL) >= before


def test_an_overloaded_server_gets_few_bindings_and_more_when_it_recovers() -> None:
    """Such as one that answers 429 with Retry-After: 1, which the client waits for."""
    limit = observed(0.005, 32, 100)
    observed(1.5 * TOO_LONG, 40, 200, limit)
    assert limit.limit(MANY, SMALL) < 2 * FEWEST
    observed(0.006, 3, 200, limit)
    assert limit.limit(MANY, SMALL) >= LONG_QUEUE


def test_a_long_burst_has_a_longer_queue_until_no_pod_waits() -> None:
    limit = observed(0.05, 2, 100)
    needed = limit.limit(1, LARGE) - LARGE_QUEUE
    queues = [limit.limit(waiting, LARGE) - needed for waiting in (MANY - 1, MANY, 1, 0, MANY - 1)]
    assert queues == pytest.approx([LARGE_QUEUE, LONG_QUEUE, LONG_QUEUE, LARGE_QUEUE, LARGE_QUEUE])


def test_a_long_burst_begins_with_the_connections_that_are_open() -> None:
    assert ConcurrencyLimit().limit(MANY, SMALL) == SMALL_QUEUE


def test_there_is_a_most() -> None:
    limit = observed(0.5, MOST, 1000, ConcurrencyLimit(most=100))
    assert limit.limit(MANY, SMALL) == 100


@pytest.mark.parametrize(
    ("qps", "needed"), [(50.0, 5), (-1.0, EXPECTED_THROUGHPUT / 10), (1e6, EXPECTED_THROUGHPUT / 10)]
)
def test_no_more_are_expected_than_the_clients_own_rate_limit_allows(qps: float, needed: float) -> None:
    limit = ConcurrencyLimit(qps=qps)
    limit.expect(0.1)
    assert limit.limit(1, SMALL) == needed + SMALL_QUEUE


def test_what_is_measured_goes_before_what_was_expected() -> None:
    limit = observed(0.001, 1, 10)
    before = limit.limit(1, SMALL)
    limit.expect(0.1)
    assert limit.limit(1, SMALL) == before
