"""Client-side rate limit, `clientConnection.qps` and `burst`, a token bucket as in client-go."""

from __future__ import annotations

from pyscheduler.clock import Clock

DEFAULT_QPS = 50.0
DEFAULT_BURST = 100
"""Defaults of kube-scheduler's configuration."""


class Limiter:
    """Token bucket of `qps` calls a second with `burst` at once; 0 means the default."""

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self._qps = qps or DEFAULT_QPS
        self._burst = float(burst or DEFAULT_BURST)
        self._clock = clock
        self._tokens = self._burst
        self._at = clock.now()

    def take(self) -> float:
        """Take a token; return the seconds until it is available. Calls get tokens in order."""
        self._refill()
        self._tokens -= 1
        return max(0.0, -self._tokens / self._qps)

    def left(self) -> int:
        """Return the number of tokens available without waiting."""
        self._refill()
        return max(0, int(self._tokens))

    def _refill(self) -> None:
        now = self._clock.now()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._qps)
        self._at = now
