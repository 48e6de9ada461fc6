"""Who hears of the calls to the API server: nobody, unless somebody wants to count them."""

from __future__ import annotations


class ClientMetrics:
    """Ignores all that it is told."""

    def observe_rate_limiter_wait(self, method: str, seconds: float) -> None:
        """A call waited so long for its turn (`clientConnection.qps`); mostly 0."""

    def count_result(self, method: str, status: int, again: bool) -> None:
        """A call was answered, or was not: status 0. `again`: it was a repetition."""

    def observe_sizes(self, method: str, sent: int, received: int) -> None:
        """The bodies of a call and of its answer had so many bytes."""

    def observe_latency(self, method: str, seconds: float) -> None:
        """A call took so long, its repetitions and the waits before them counted in."""
