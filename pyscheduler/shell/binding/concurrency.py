"""Bindings in flight: their counter, and their limit, adapted to the API server's latency.

By Little's law, a server that executes X bindings a second at a latency of L seconds needs X * L of them in flight: 3
on the same host, 75 at 50 ms. A few more wait in the server's queue, so that the server is never idle and etcd writes
several to disk together. The limit is therefore

    throughput * base latency + queue

Both are measured, as in TCP Vegas. The base latency is the shortest duration of a binding. A binding that took n times
as long with N in flight shows that N / n would have sufficed. A binding at base latency shows that the server could
take more, up to twice as many (TCP's slow start). The queue is short, because waiting in it lengthens the attempt:

- 8 in a cluster of more than 1,000 nodes, where the server sometimes stalls: bindings in flight are late then, and ten
  attempts in a thousand are the p99.
- 32 in a smaller cluster, which binds up to a fifth faster with it.
- 96 from the time 3,000 pods wait until 32 do: 0.1 s more is negligible compared with their wait.

Calls that wait for a second or more (an overloaded server, 429 with Retry-After) shorten the queue to 4.

The shortest duration is the base latency only if the server was idle, and servers become slower and faster. So it
follows the bindings with at most 3 others in flight, as at the start of each burst; after 10 seconds without such
bindings, the limit is 4 until it is measured again (BBR's ProbeRTT).
"""

from __future__ import annotations

from types import TracebackType
from typing import Final

MOST: Final = 384
"""Maximum number of bindings in flight. With its defaults, API Priority and Fairness executes 98 requests of the
service accounts in kube-system concurrently and queues 300; further requests get 429."""
FEWEST: Final = 4.0
"""The shortest queue, and the limit while the base latency is measured."""
LARGE_QUEUE: Final = 8.0
SMALL_QUEUE: Final = 32.0
LONG_QUEUE: Final = 96.0
"""Queue in a large cluster, in a small one, and in a long burst."""
SMALL: Final = 1000
"""Largest number of nodes of a small cluster."""
MANY: Final = 3000
"""Number of waiting pods from which a burst counts as long."""
TOO_LONG: Final = 1.0
"""Seconds of waiting in the server's queue from which the server counts as overloaded."""
RENEW_AFTER: Final = 10.0
"""Seconds of load after which the base latency is measured again."""
_IDLE: Final = 1.1
"""Multiple of the base latency up to which a binding counts as not queued."""
EXPECTED_THROUGHPUT: Final = 2000.0
"""Bindings a second expected of an API server before any has been measured."""


class InFlightCounter:
    """Number of bindings in flight, to which less urgent writes yield: `with in_flight:`, or `begin` and `end`."""

    __slots__ = ("begun", "bindings", "evictions")

    def __init__(self) -> None:
        self.bindings = 0
        self.begun = 0
        """Total number of bindings begun."""
        self.evictions = 0
        """Number of preemptors with evictions in flight."""

    def begin(self) -> None:
        self.bindings += 1
        self.begun += 1

    def end(self) -> None:
        self.bindings -= 1

    def __enter__(self) -> None:
        self.begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


class ConcurrencyLimit:
    """Adaptive concurrency limit: `limit` returns it, `observe` takes the duration of each successful binding."""

    __slots__ = ("_base", "_is_long", "_load", "_needed", "_queue", "_throughput", "most")

    def __init__(self, most: int = MOST, qps: float = -1.0) -> None:
        """Limit to at most `most`. The client sends at most `qps` calls a second; negative means unlimited."""
        self.most = most
        self._throughput = EXPECTED_THROUGHPUT if qps < 0 else min(qps, EXPECTED_THROUGHPUT)
        self._needed = 0.0
        """Bindings in flight that keep the server busy with an empty queue."""
        self._queue = SMALL_QUEUE
        self._base = float("inf")
        self._load = 0.0
        """Seconds of load since the base latency was measured; by Little's law each binding contributes seconds / N."""
        self._is_long = False

    def expect(self, latency: float) -> None:
        """Start from a base latency of `latency` seconds if no binding has been observed yet."""
        if self._base == float("inf"):
            self._needed = self._throughput * latency

    def limit(self, waiting: int, nodes: int) -> float:
        """Return the limit while `waiting` pods wait, for attempts or bindings, in a cluster of `nodes` nodes."""
        self._is_long = waiting >= MANY or (self._is_long and waiting > SMALL_QUEUE)
        if self._load > RENEW_AFTER:
            return min(self.most, FEWEST)
        queue = LONG_QUEUE if self._is_long else SMALL_QUEUE if nodes <= SMALL else LARGE_QUEUE
        return min(self.most, self._needed + min(queue, self._queue))

    def observe(self, seconds: float, in_flight: int) -> None:
        """Record the duration of a binding that began with `in_flight` bindings in flight, itself included."""
        if in_flight > FEWEST:
            self._load += seconds / in_flight
        else:
            if self._load > RENEW_AFTER:
                self._base = seconds
            elif seconds > self._base:
                self._base += (seconds - self._base) / 4
            self._load = 0.0
        self._base = min(self._base, seconds)
        is_idle = seconds <= self._base * _IDLE
        needed = in_flight * (2.0 if is_idle else self._base / seconds)
        if in_flight >= self._needed or seconds > 2 * self._base:  # otherwise there was little demand
            self._needed += (needed - self._needed) * min(1.0, 2 / in_flight)
        step = 1.0 if seconds - self._base < TOO_LONG else -1.0
        self._queue = max(FEWEST, min(LONG_QUEUE, self._queue + step))
