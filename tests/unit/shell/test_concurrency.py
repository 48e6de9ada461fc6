"""The concurrency limit keeps servers of any latency busy without a long queue."""

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
    """Simulated server of `throughput` bindings a second and `latency` seconds, in virtual time.

    A binding beyond the maximum in flight so far needs a new connection, which takes `setup` more round trips.
    """

    latency: float
    throughput: float = 2000.0
    setup: int = 0
    now: float = 0.0
    most_in_flight: int = 0
    took: list[float] = field(default_factory=list)
    _free_at: float = 0.0

    def bind(self, limit: ConcurrencyLimit, pods: int, nodes: int = SMALL, waiting: int | None = None) -> float:
        """Bind `pods` pods as fast as the limit allows; return the bindings a second."""
        began, in_flight, left = self.now, list[tuple[float, float, int]](), pods
        while left or in_flight:
            ready = left if waiting is None else waiting
            while left and len(in_flight) < limit.limit(ready, nodes):
                left -= 1
                heapq.heappush(in_flight, (self._answered_at(len(in_flight)), self.now, len(in_flight) + 1))
                self.most_in_flight = max(self.most_in_flight, len(in_flight))
            self.now, sent, concurrent = heapq.heappop(in_flight)
            self.took.append(self.now - sent)
            limit.observe(self.now - sent, concurrent)
        return pods / (self.now - began)

    def _answered_at(self, in_flight: int) -> float:
        opening = self.setup * self.latency if in_flight >= self.most_in_flight else 0.0
        arrives = self.now + opening + self.latency
        self._free_at = max(self._free_at, arrives) + 1 / self.throughput
        return self._free_at


def observed(seconds: float, in_flight: int, times: int, limit: ConcurrencyLimit | None = None) -> ConcurrencyLimit:
    """Return a limit that has observed `times` bindings of `seconds`."""
    limit = limit or ConcurrencyLimit()
    for _ in range(times):
        limit.observe(seconds, in_flight)
    return limit


@pytest.mark.parametrize("latency", [0.005, 0.02, 0.05, 0.1])
@pytest.mark.parametrize("nodes", [SMALL, LARGE])
def test_distant_server_is_kept_busy(latency: float, nodes: int) -> None:
    limit, server = ConcurrencyLimit(), ThroughputServer(latency)
    server.bind(limit, 4000, nodes)
    assert server.bind(limit, 10_000, nodes, waiting=1) > 0.9 * server.throughput


@pytest.mark.parametrize("latency", [0.005, 0.02, 0.05, 0.1])
def test_first_burst_reaches_half_of_the_servers_throughput(latency: float) -> None:
    """The limit starts from the latency of a small read instead of growing over several round trips."""
    limit, server = ConcurrencyLimit(), ThroughputServer(latency, setup=2)
    limit.expect(latency)
    assert server.bind(limit, 2000) > 0.5 * server.throughput


@pytest.mark.parametrize(
    ("latency", "in_small", "in_large"),
    [(0.0005, 38, 14), (0.005, 45, 21), (0.02, 75, 56), (0.05, 135, 122), (0.1, 255, 232)],
)
def test_bindings_in_flight_match_the_documented_numbers(latency: float, in_small: int, in_large: int) -> None:
    for nodes, most in ((SMALL, in_small), (LARGE, in_large)):
        limit, server = ConcurrencyLimit(), ThroughputServer(latency)
        limit.expect(latency)
        assert server.bind(limit, 2000, nodes) > 0.9 * server.throughput
        server.bind(limit, 40_000, nodes, waiting=1)
        assert server.most_in_flight == most


@pytest.mark.parametrize(
    ("nodes", "most"), [pytest.param(SMALL, 45, id="small cluster"), pytest.param(LARGE, 20, id="large cluster")]
)
def test_near_server_gets_no_long_queue(nodes: int, most: int) -> None:
    limit, server = ConcurrencyLimit(), ThroughputServer(0.0005)
    assert server.bind(limit, 2000, nodes) > 0.95 * server.throughput
    assert server.most_in_flight <= most


def test_distant_slow_server_gets_no_long_queue() -> None:
    limit, server = ConcurrencyLimit(), ThroughputServer(0.05, throughput=200)
    limit.expect(0.05)
    server.bind(limit, 2000)
    server.took.clear()
    server.bind(limit, 2000, waiting=1)
    assert max(server.took[500:]) < 0.05 + 1.5 * SMALL_QUEUE / server.throughput


@pytest.mark.parametrize("nodes", [SMALL, LARGE])
def test_limit_adapts_when_latency_grows(nodes: int) -> None:
    limit, server = ConcurrencyLimit(), ThroughputServer(0.001)
    server.bind(limit, 2000, nodes)
    server.latency = 0.05
    server.bind(limit, 6000, nodes, waiting=1)
    assert server.bind(limit, 6000, nodes, waiting=1) > 0.9 * server.throughput


def test_queue_does_not_grow_during_a_long_burst() -> None:
    """Latency under load must not count as base latency: each renewal would allow a longer queue."""
    limit, server = ConcurrencyLimit(), ThroughputServer(0.002)
    for _ in range(20):
        server.bind(limit, 4000, LARGE, waiting=1)
    assert server.most_in_flight < 30


def test_base_latency_is_renewed_after_ten_seconds_of_load() -> None:
    limit = observed(0.01, 32, int(RENEW_AFTER * 32 / 0.01) + 2)
    assert limit.limit(1, SMALL) == FEWEST
    limit.observe(0.02, int(FEWEST))
    assert limit.limit(1, SMALL) > SMALL_QUEUE


def test_one_late_response_changes_the_limit_little() -> None:
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
    """For example, a server that responds 429 with Retry-After: 1, for which the client waits."""
    limit = observed(0.005, 32, 100)
    observed(1.5 * TOO_LONG, 40, 200, limit)
    assert limit.limit(MANY, SMALL) < 2 * FEWEST
    observed(0.006, 3, 200, limit)
    assert limit.limit(MANY, SMALL) >= LONG_QUEUE


def test_a_long_burst_has_a_longer_queue_until_few_pods_wait() -> None:
    limit, few = observed(0.05, 2, 100), int(SMALL_QUEUE)
    needed = limit.limit(1, LARGE) - LARGE_QUEUE
    queues = [limit.limit(waiting, LARGE) - needed for waiting in (MANY - 1, MANY, few + 1, few, MANY - 1)]
    assert queues == pytest.approx([LARGE_QUEUE, LONG_QUEUE, LONG_QUEUE, LARGE_QUEUE, LARGE_QUEUE])


def test_long_burst_starts_with_the_open_connections() -> None:
    assert ConcurrencyLimit().limit(MANY, SMALL) == SMALL_QUEUE


def test_limit_has_a_maximum() -> None:
    limit = observed(0.5, MOST, 1000, ConcurrencyLimit(most=100))
    assert limit.limit(MANY, SMALL) == 100


@pytest.mark.parametrize(
    ("qps", "needed"), [(50.0, 5), (-1.0, EXPECTED_THROUGHPUT / 10), (1e6, EXPECTED_THROUGHPUT / 10)]
)
def test_expected_throughput_is_bounded_by_the_clients_rate_limit(qps: float, needed: float) -> None:
    limit = ConcurrencyLimit(qps=qps)
    limit.expect(0.1)
    assert limit.limit(1, SMALL) == needed + SMALL_QUEUE


def test_measured_latency_overrides_the_expected_one() -> None:
    limit = observed(0.001, 1, 10)
    before = limit.limit(1, SMALL)
    limit.expect(0.1)
    assert limit.limit(1, SMALL) == before
