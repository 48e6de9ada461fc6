"""The client's own rate limit, `clientConnection.qps` and `burst`, as client-go keeps it: a token bucket."""

from __future__ import annotations

from pyscheduler.shell.clock import Clock

DEFAULT_QPS = 50.0
DEFAULT_BURST = 100
"""What kube-scheduler's configuration defaults to."""


class Limiter:
    """At most `qps` calls a second over time, `burst` at once; 0 means the default, a negative qps no limit."""

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self._qps = qps or DEFAULT_QPS
        self._burst = float(burst or DEFAULT_BURST)
        self._clock = clock
        self._tokens = self._burst
        self._at = clock.now()

    def take(self) -> float:
        """Take this call's turn: the seconds until then. Turns are given in the order of asking."""
        if self._qps < 0:
            return 0.0
        now = self._clock.now()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._qps) - 1
        self._at = now
        return max(0.0, -self._tokens / self._qps)
