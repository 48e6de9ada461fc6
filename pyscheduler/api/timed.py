"""Decisions that change at known times, such as with the time of day."""

from __future__ import annotations

from abc import abstractmethod

import msgspec

from pyscheduler.api.plugin import Plugin
from pyscheduler.api.pod import Pod


class TimeUpdate(msgspec.Struct, frozen=True):
    """Result of `TimedPlugin.advance_to`."""

    has_changed: bool = False
    """True retries the pods that the plugin has rejected and for which it registers the event TIME."""
    evicted: tuple[tuple[Pod, str], ...] = ()
    """Pods on nodes to evict, each with the message of its event."""


class TimedPlugin(Plugin):
    """Plugin with a timer. It has other extension points besides, which decide as of the last `advance_to`.

    Cached results do not become stale with the time: `filter_cache_key` and `score_cache_key` have to change then.
    """

    @abstractmethod
    def advance_to(self, now: float) -> TimeUpdate:
        """Bring the decisions up to date with the time, in seconds since 1970.

        Called before the first attempt, and when the time of `next_time` has come.
        """

    @abstractmethod
    def next_time(self) -> float | None:
        """Return the time of the next call of `advance_to`, in seconds since 1970; None if none is needed."""
