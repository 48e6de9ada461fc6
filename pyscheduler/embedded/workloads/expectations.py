"""Writes of a controller that its informers have not yet received (client-go's ControllerExpectations).

A controller that counts cached pods right after creating some would create them again. So it waits until the cache has
caught up with its own writes, or until a timeout, in case an event was lost.
"""

from __future__ import annotations

from collections.abc import Hashable

EXPECTATIONS_TIMEOUT_SECONDS = 30.0


class Expectations:
    """Uids of created and deleted objects that each owner has not yet observed."""

    def __init__(self) -> None:
        self._owner: dict[str, Hashable] = {}
        self._waiting: dict[Hashable, dict[str, float]] = {}

    def expect(self, owner: Hashable, uid: str, now: float) -> None:
        """Record that `owner` has created or deleted the object `uid` and waits for its event."""
        self._owner[uid] = owner
        self._waiting.setdefault(owner, {})[uid] = now

    def observe(self, uid: str) -> Hashable | None:
        """Record that the event of `uid` has arrived; return the owner that waited for it, if any."""
        owner = self._owner.pop(uid, None)
        if owner is not None:
            waiting = self._waiting[owner]
            waiting.pop(uid, None)
            if not waiting:
                del self._waiting[owner]
        return owner

    def is_satisfied(self, owner: Hashable, now: float) -> bool:
        """Return True if all events that `owner` waited for have arrived or timed out."""
        overdue = [uid for uid, at in self._waiting.get(owner, {}).items() if now - at >= EXPECTATIONS_TIMEOUT_SECONDS]
        for uid in overdue:
            self.observe(uid)
        return owner not in self._waiting
