"""Log of an outage: one line when calls begin to fail, a summary at intervals, and one line when all succeed again.

An API server that is down fails dozens of watches, each every few seconds. The lines of all of them would hide the
cause, and everything else that happens meanwhile.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple

from pyscheduler import logs
from pyscheduler.clock import Clock
from pyscheduler.logs import Log

SUMMARY_SECONDS: Final = 30.0
"""Seconds between two lines of a continuing outage."""


class OutageMessages(NamedTuple):
    """Messages of the three kinds of lines."""

    begin: str
    summary: str
    end: str


class OutageLog:
    """Failures that have a common cause. Call it at every failure and every success."""

    def __init__(self, log: Log, clock: Clock, messages: OutageMessages) -> None:
        self._log = log
        self._clock = clock
        self._messages = messages
        self._failing: set[Hashable] = set()
        """Keys of what fails now."""
        self._affected: set[Hashable] = set()
        """Keys of what has failed since the outage began."""
        self._began = self._logged = 0.0

    def fail(self, key: Hashable, error: Exception, **fields: object) -> None:
        """Record a failure of `key`; `fields` name it in the log."""
        now, is_new = self._clock.now(), not self._failing
        self._failing.add(key)
        if is_new:
            self._affected, self._began, self._logged = set(), now, now
            self._log.warning(self._messages.begin, error, **fields)
        self._affected.add(key)
        if now - self._logged >= SUMMARY_SECONDS:
            self._logged = now
            seconds, failing = round(now - self._began), len(self._failing)
            self._log.warning(self._messages.summary, error, seconds=seconds, failing=failing, **fields)

    def has_failed(self, key: Hashable) -> bool:
        """Return True if the last record of `key` is a failure."""
        return key in self._failing

    def succeed(self, key: Hashable) -> None:
        """Record a success of `key`, which ends the outage if nothing else fails."""
        if key not in self._failing:
            return
        self._failing.remove(key)
        if not self._failing:
            seconds = round(self._clock.now() - self._began, 1)
            self._log.info(self._messages.end, seconds=seconds, affected=len(self._affected))

    def forget(self, key: Hashable) -> None:
        """Remove a key that is no longer called, so that the outage does not last for ever because of it."""
        self._failing.discard(key)


def watch_outage_log(clock: Clock) -> OutageLog:
    """Return the log of all watches of one connection."""
    messages = OutageMessages(
        begin="Watches are interrupted, retrying",
        summary="Watches are still interrupted, retrying",
        end="Watches have resumed",
    )
    return OutageLog(logs.get("reflector"), clock, messages)
