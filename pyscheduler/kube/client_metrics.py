"""Interface for metrics of API server calls; the default discards them."""

from __future__ import annotations


class ClientMetrics:
    """Discards all observations."""

    def observe_rate_limiter_wait(self, method: str, seconds: float) -> None:
        """Record the seconds that a call waited for the rate limiter (`clientConnection.qps`)."""

    def count_result(self, method: str, status: int, again: bool) -> None:
        """Count a call by status, 0 for none; `again` is True for a retry."""

    def observe_sizes(self, method: str, sent: int, received: int) -> None:
        """Record the bytes of the bodies of a request and its response."""

    def observe_latency(self, method: str, seconds: float) -> None:
        """Record the seconds of a call, including its retries and the pauses before them."""
