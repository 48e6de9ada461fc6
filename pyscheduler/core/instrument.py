"""Where the core tells what it did, without knowing who counts.

The base class ignores everything; the shell's subclass feeds Prometheus with its own clock, a test's subclass records.
"""

from __future__ import annotations


class Instrument:
    """Every method may be overridden; none may raise."""

    def queue_incoming(self, queue: str, event: str) -> None:
        """A pod entered `queue` (active, backoff, unschedulable) because of `event`."""

    def attempted(self, profile: str, result: str, began: float) -> None:
        """An attempt that began at `began` (the machine's seconds) ended: scheduled, unschedulable or error."""

    def scheduled(self, attempts: int, seconds: float, flushed: bool) -> None:
        """A pod was bound after so many attempts and so many seconds since its first."""

    def permit_waited(self, result: str, seconds: float) -> None:
        """A pod left Permit's waiting room: allowed, rejected."""

    def point_entered(self, point: str, profile: str) -> None:
        """An extension point starts."""

    def point_left(self, point: str, profile: str, status: str) -> None:
        """The extension point that was entered last ends with a status (Success, Unschedulable …)."""

    def preemption_attempted(self) -> None:
        """A pod that fits nowhere looks for pods to be evicted."""

    def preempted(self, victims: int) -> None:
        """So many pods are to make room for one."""

    def plugin_failed(self, plugin: str, point: str, error: BaseException) -> None:
        """A plugin raised; the pod pays one backoff, the loop goes on."""
