"""Pods that wait in Permit (kube-scheduler's waitingPodsMap).

`allow` and `reject` of a plugin are only recorded; the machine applies them after the plugin's call, so that a plugin
never re-enters the scheduler.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice

import msgspec

from pyscheduler.api.outcome import Wait
from pyscheduler.api.pod import Pod

MAX_PERMIT_WAIT = 15 * 60.0
"""Seconds; kube-scheduler caps every Permit wait at 15 minutes."""


class WaitingPodState(msgspec.Struct, eq=False):
    """A pod waiting on Permit: the plugins it waits for, their deadlines and reasons."""

    pod: Pod
    """The latest version of the pod."""
    node_name: str
    since: float
    deadlines: dict[str, float]
    reasons: dict[str, str] = msgspec.field(default_factory=dict)
    rechecks: dict[str, float] = msgspec.field(default_factory=dict)
    """Time of the next `permit` call of each plugin with `recheck_every`."""
    rejected_by: str = ""
    rejection: str = ""
    is_pending: bool = False
    """True if the rejection has the code Pending."""
    error: str = ""
    """Set if no plugin rejected the pod: a plugin failed, or the pod was preempted. It is requeued."""

    @property
    def pending_plugins(self) -> frozenset[str]:
        return frozenset(self.deadlines)

    @property
    def is_decided(self) -> bool:
        """True if no plugin holds the pod any more or one rejected it."""
        return bool(self.rejected_by) or not self.deadlines

    def is_held_by(self, plugin: str) -> bool:
        """Return True while the pod waits for the plugin and has not been rejected."""
        return plugin in self.deadlines and not self.rejected_by

    @property
    def reason(self) -> str:
        """Reasons for waiting, plugin by plugin."""
        return "; ".join(_wait_text(plugin, self.reasons.get(plugin, "")) for plugin in self.deadlines)

    @property
    def next_wake(self) -> float:
        """Time of the first deadline or recheck."""
        return min((*self.deadlines.values(), *self.rechecks.values()), default=math.inf)

    def hold(self, plugin: str, wait: Wait, now: float) -> None:
        """Store a plugin's Wait. The deadline of its first Wait stands."""
        self.deadlines.setdefault(plugin, now + max(min(wait.seconds, MAX_PERMIT_WAIT), 0.0))
        self.reasons[plugin] = wait.reason
        if wait.recheck_every > 0:
            self.rechecks[plugin] = now + wait.recheck_every
        else:
            self.rechecks.pop(plugin, None)

    def is_due(self, plugin: str, now: float) -> bool:
        """Return True if the plugin's deadline or its next recheck has been reached."""
        return self.is_held_by(plugin) and now >= min(self.deadlines[plugin], self.rechecks.get(plugin, math.inf))

    def allow(self, plugin: str) -> None:
        self.deadlines.pop(plugin, None)
        self.rechecks.pop(plugin, None)

    def reject(self, plugin: str, message: str, *, is_pending: bool = False) -> None:
        if not self.rejected_by:
            self.rejected_by, self.rejection, self.is_pending = plugin, message, is_pending

    def preempt(self, plugin: str, why: str = "preempted") -> None:
        """Reject the pod because it was preempted or for `why`, whichever plugins hold it."""
        self.fail(plugin, f"waiting on permit for pod: {why}")

    def fail(self, plugin: str, error: str) -> None:
        """Reject the pod with an error, whichever plugins hold it; it is retried after its backoff."""
        self.rejected_by, self.error = plugin, error

    def expire(self, now: float) -> None:
        """Reject the pod if a deadline has passed, naming the plugin with the earliest deadline."""
        plugin = min(self.deadlines, key=self.deadlines.__getitem__, default=None)
        if plugin is not None and now >= self.deadlines[plugin]:
            waited = _format_duration(self.deadlines[plugin] - self.since)
            self.reject(plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}")


class WaitingPodMap:
    """The waiting pods of all profiles."""

    def __init__(self) -> None:
        self.by_uid: dict[str, WaitingPodState] = {}

    def __iter__(self) -> Iterator[WaitingPodState]:
        return iter(tuple(self.by_uid.values()))

    def get(self, uid: str) -> WaitingPodState | None:
        return self.by_uid.get(uid)

    def take_decided(self, limit: int) -> list[WaitingPodState]:
        """Remove up to `limit` pods that were allowed or rejected, and return them."""
        decided = list(islice((w for w in self.by_uid.values() if w.is_decided), limit))
        for waiting in decided:
            del self.by_uid[waiting.pod.uid]
        return decided


def _wait_text(plugin: str, reason: str) -> str:
    waits = f'waiting for plugin "{plugin}"'
    return f"{waits}: {reason}" if reason else waits


def _format_duration(seconds: float) -> str:
    """Format a duration as Go does in kube-scheduler's messages: 500ms, 5s, 1m30s, 15m0s."""
    if 0 < seconds < 1:
        return f"{seconds * 1000:g}ms"
    minutes, rest = divmod(round(seconds, 6), 60)
    return f"{int(minutes)}m{rest:g}s" if minutes else f"{rest:g}s"
