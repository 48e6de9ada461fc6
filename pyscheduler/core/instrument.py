"""Where the core tells what it did, without knowing who counts.

The base class ignores everything; the shell's subclass feeds Prometheus with its own clock, a test's subclass records.
The shell tells it of what happens there in the same words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from pyscheduler.api.cycle import CallObserver
from pyscheduler.api.outcome import ClearNomination, Code, Rejection, Skip, Wait

SUCCESS = Code.SUCCESS.camel
ERROR = Code.ERROR.camel


def status_of(answer: object) -> str:
    """What a plugin's answer is called, as kube-scheduler calls it."""
    if isinstance(answer, Rejection):
        return answer.code.camel
    if isinstance(answer, ClearNomination):
        return answer.rejection.code.camel
    if isinstance(answer, Skip):
        return Code.SKIP.camel
    return Code.WAIT.camel if isinstance(answer, Wait) else SUCCESS


class Point:
    """An extension point of one profile: entered and left once for each pod, one at a time.

    Every pod's points are told by plain calls, because a `with` block costs as much as many plugins do; elsewhere the
    block is the simpler way, and `status` what it ends with.
    """

    __slots__ = ("status",)

    def __enter__(self) -> Self:
        self.status = SUCCESS
        self.enter()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.leave(self.status)
        else:
            self.broken()

    def enter(self) -> None:
        """The point begins."""

    def leave(self, status: str = SUCCESS) -> None:
        """It ends with a status (Success, Unschedulable …)."""

    def broken(self) -> None:
        """A plugin has raised: the point ends with Error if it has not been left."""


NOOP_POINT = Point()
"""A point of which nobody is told."""


class Instrument:
    """Every method may be overridden; none may raise."""

    timer: Callable[[], float] | None = None
    """Seconds on a clock by which attempts for large pods are limited; None where time is data."""

    def queue_incoming(self, queue: str, event: str) -> None:
        """A pod entered `queue` (active, backoff, unschedulable) because of `event`."""

    def event_handled(self, event: str, since: float) -> None:
        """What a watch showed at `since` (the machine's seconds) has been worked in; `event` is its label."""

    def attempted(self, profile: str, result: str, began: float) -> None:
        """An attempt that began at `began` (the machine's seconds) ended: scheduled, unschedulable or error."""

    def scheduled(self, attempts: int, seconds: float, flushed: bool) -> None:
        """A pod was bound after so many attempts and so many seconds since its first."""

    def permit_waited(self, result: str, seconds: float) -> None:
        """A pod left Permit's waiting room: Success, Unschedulable."""

    def point(self, point: str, profile: str) -> Point:  # noqa: ARG002 - nobody is told
        """An extension point of a profile, to be entered as often as it is run."""
        return NOOP_POINT

    def point_took(self, point: str, profile: str, status: str, seconds: float) -> None:
        """An extension point that waits, and so may run for several pods at once, has ended."""

    def watch(self, turn: int) -> CallObserver | None:  # noqa: ARG002 - nobody watches
        """Who times the plugins' calls in the `turn`-th attempt (or PreEnqueue), from 1; None to leave them alone."""
        return None

    def plugin_took(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """A plugin's call that waits has ended, in an attempt that is watched."""

    def hint_entered(self) -> None:
        """A plugin's queueing hint is asked."""

    def hint_left(self, plugin: str, event: str, answer: str) -> None:
        """It has answered of an event, by its label: Queue, QueueSkip, Error."""

    def preemption_attempted(self) -> None:
        """A pod that fits nowhere looks for pods to be evicted."""

    def preempted(self, victims: int) -> None:
        """So many pods are to make room for one."""

    def evictions_finished(self, result: str, seconds: float) -> None:
        """The victims of one pod have been evicted (success), or one of them could not be (error)."""

    def called_off(self, plugin: str, point: str, reason: str) -> None:
        """A binding cycle was ended while a plugin was at work, because of a `reason`: gone, preempted, timeout."""

    def plugin_failed(self, plugin: str, point: str, error: BaseException) -> None:
        """A plugin raised; the pod pays one backoff, the loop goes on."""
