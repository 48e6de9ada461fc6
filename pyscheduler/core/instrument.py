"""Instrumentation interface: the core and the shell report what they do, and subclasses count it.

The base class ignores everything; the shell's subclass feeds Prometheus with its own clock, a test's subclass records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from pyscheduler.api.cycle import CallObserver
from pyscheduler.api.outcome import ClearNomination, Code, Rejection, Skip, Wait

SUCCESS = Code.SUCCESS.camel
ERROR = Code.ERROR.camel


def status_of(result: object) -> str:
    """Return kube-scheduler's status code of a plugin's result."""
    if isinstance(result, Rejection):
        return result.code.camel
    if isinstance(result, ClearNomination):
        return result.rejection.code.camel
    if isinstance(result, Skip):
        return Code.SKIP.camel
    return Code.WAIT.camel if isinstance(result, Wait) else SUCCESS


class Point:
    """An extension point of one profile: entered and left once for each pod, one at a time.

    Points that run for every pod set `began` to the time of `clock`, because a call costs as much as many plugins do.
    Others call `enter`, or use a `with` block, which ends with `status`.
    """

    clock: Callable[[], float] = float
    """Clock in seconds; always 0 if durations are not recorded."""
    began = 0.0
    """Start of the current run, 0 if there is none."""
    status: str

    def __enter__(self) -> Self:
        self.status = SUCCESS
        self.enter()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.leave(self.status)
        else:
            self.fail()

    def enter(self) -> None:
        """Start the point."""
        self.began = self.clock()

    def leave(self, status: str = SUCCESS) -> None:
        """End the point with a status (Success, Unschedulable …)."""

    def fail(self) -> None:
        """End the point with Error if it has not been left: a plugin raised."""


NOOP_POINT = Point()
"""Point that counts nothing."""


class Instrument:
    """Base class of instruments. Every method may be overridden; none may raise."""

    timer: Callable[[], float] | None = None
    """Clock in seconds that limits attempts for large pods; None without a real clock."""

    def queue_incoming(self, queue: str, event: str) -> None:
        """Count a pod that entered `queue` (active, backoff, unschedulable) because of `event`."""

    def event_handled(self, event: str, since: float) -> None:
        """Count an event that a watch delivered at `since` (the machine's seconds) and that has been applied."""

    def attempted(self, profile: str, result: str, began: float) -> None:
        """Count an attempt that began at `began` (the machine's seconds): scheduled, unschedulable or error."""

    def scheduled(self, attempts: int, seconds: float, flushed: bool) -> None:
        """Count a pod that was bound after `attempts`, `seconds` after the first."""

    def permit_waited(self, result: str, seconds: float) -> None:
        """Count a pod that waited in Permit for `seconds`: Success, Unschedulable."""

    def point(self, point: str, profile: str) -> Point:  # noqa: ARG002 - for subclasses
        """Return an extension point of a profile, to be entered at each run."""
        return NOOP_POINT

    def point_took(self, point: str, profile: str, status: str, seconds: float) -> None:
        """Count the end of an asynchronous extension point, which may run for several pods at once."""

    def call_observer(self, run: int) -> CallObserver | None:  # noqa: ARG002 - for subclasses
        """Return the observer of plugin calls in the `run`-th attempt (or PreEnqueue), from 1; None for no timing."""
        return None

    def plugin_took(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """Count an asynchronous plugin call in an attempt with an observer."""

    def hint_entered(self) -> None:
        """Start the call of a queueing hint."""

    def hint_left(self, plugin: str, event: str, result: str) -> None:
        """End the call of a queueing hint for an event label with Queue, QueueSkip or Error."""

    def preemption_attempted(self) -> None:
        """Count a preemption attempt."""

    def preempted(self, victims: int) -> None:
        """Count a preemption with so many victims."""

    def evictions_finished(self, result: str, seconds: float) -> None:
        """Count the end of one preemptor's evictions: success, or error if one failed."""

    def binding_cancelled(self, plugin: str, point: str, reason: str) -> None:
        """Count a binding cycle that was cancelled during a plugin's call; `reason` is gone, preempted or timeout."""

    def pod_group_ignored(self, profile: str, declaration: str) -> None:
        """Report a pod with the declaration of a group that no plugin of its profile reads."""

    def queue_ignored(self, profile: str, declaration: str) -> None:
        """Report a pod that names a queue which no plugin of its profile reads."""

    def plugin_failed(self, plugin: str, point: str, error: BaseException) -> None:
        """Report a plugin that raised; the pod is retried after a backoff."""
