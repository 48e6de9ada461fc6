"""The concurrency limit of bindings: how many may be in flight at once.

By Little's law a server that answers X bindings a second, each L seconds away, is kept busy by X * L of them: 3 where
it is on the same host, 75 where it is 50 ms away. These are on their way or under work. A few more wait in the server's
queue, so that it is never idle and etcd writes several to disk together. So the limit is

    throughput * base latency + queue

Both are measured, as in TCP Vegas: the base latency is the least that a binding took, and a binding that took n times
as long while N were in flight shows that N / n of them were needed and that the rest waited in a queue. One that took
no longer shows that the server could have answered more, up to twice as many (TCP's slow start). The queue that is
allowed is small, because whatever waits in it is a longer attempt:

- 8 in a cluster of more than 1,000 nodes, where the server stalls for longer at times: what is in flight then is late,
  and ten attempts of a thousand are the p99.
- 32 in a smaller one, which binds up to a fifth faster with it.
- 96 from when 3,000 pods wait until none does: a tenth of a second is nothing beside what they wait anyway.

Calls that wait for a second or more (an overloaded server, 429 with Retry-After) shorten the queue to 4.

The least latency is the base latency only if the server was idle, and servers become slower and faster. So it follows
the bindings that had at most 3 others beside them, as at the start of each burst; after 10 seconds in which there were
always more, there are 4 in flight until it is measured anew (BBR's ProbeRTT).
"""

from __future__ import annotations

from typing import Final

MOST: Final = 384
"""The most bindings in flight. API priority and fairness with its defaults executes 98 requests of the service accounts
in kube-system at once and queues 300; it answers 429 to what is beyond that."""
FEWEST: Final = 4.0
"""The shortest queue, and how many are in flight while the base latency is measured."""
LARGE_QUEUE: Final = 8.0
SMALL_QUEUE: Final = 32.0
LONG_QUEUE: Final = 96.0
"""The queue in a large cluster, in a small one, and of a long burst."""
SMALL: Final = 1000
"""The most nodes of a small cluster."""
MANY: Final = 3000
"""Pods that have to wait for a burst to be a long one."""
TOO_LONG: Final = 1.0
"""Seconds of waiting in the server's queue from which on it counts as overloaded."""
RENEW_AFTER: Final = 10.0
"""Seconds of load after which the base latency is measured anew."""
_IDLE: Final = 1.1
"""Multiple of the base latency within which a binding counts as one that did not wait."""
EXPECTED_THROUGHPUT: Final = 2000.0
"""Bindings a second that an API server is expected to take before that has been measured."""


class ConcurrencyLimit:
    """`limit` is how many bindings may be in flight, `observe` takes the seconds of each that has succeeded."""

    __slots__ = ("_base", "_is_long", "_load", "_needed", "_queue", "_throughput", "most")

    def __init__(self, most: int = MOST, qps: float = -1.0) -> None:
        """Never more than `most`. The client sends at most `qps` calls a second; a negative one is no limit."""
        self.most = most
        self._throughput = EXPECTED_THROUGHPUT if qps < 0 else min(qps, EXPECTED_THROUGHPUT)
        self._needed = 0.0
        """Bindings in flight that keep the server busy without a queue."""
        self._queue = SMALL_QUEUE
        self._base = float("inf")
        self._load = 0.0
        """Seconds of load since the base latency was measured; by Little's law each binding stands for seconds / N."""
        self._is_long = False

    def expect(self, latency: float) -> None:
        """Set out from a server that is so many seconds away, where no binding has been observed yet."""
        if self._base == float("inf"):
            self._needed = self._throughput * latency

    def limit(self, waiting: int, nodes: int) -> float:
        """Bindings that may be in flight while so many pods wait for their attempt, in a cluster of so many nodes."""
        self._is_long = waiting >= MANY or (self._is_long and waiting > 0)
        if self._load > RENEW_AFTER:
            return min(self.most, FEWEST)
        queue = LONG_QUEUE if self._is_long else SMALL_QUEUE if nodes <= SMALL else LARGE_QUEUE
        return min(self.most, self._needed + min(queue, self._queue))

    def observe(self, seconds: float, in_flight: int) -> None:
        """Take what a binding took that began when so many were in flight, itself included."""
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
        if in_flight >= self._needed or seconds > 2 * self._base:  # else only demand was low
            self._needed += (needed - self._needed) * min(1.0, 2 / in_flight)
        step = 1.0 if seconds - self._base < TOO_LONG else -1.0
        self._queue = max(FEWEST, min(LONG_QUEUE, self._queue + step))
