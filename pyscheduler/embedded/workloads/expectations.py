"""What a controller has asked for and not yet seen in its watch.

A controller that counts pods in its local copy right after making some would make them again. So it waits until the
copy has caught up with its own writes, or until it must assume that it missed the news.
"""

from __future__ import annotations

from collections.abc import Hashable

EXPECTATIONS_TIMEOUT_SECONDS = 30.0


class Expectations:
    """Object uids that each owner waits to see appear or go."""

    def __init__(self) -> None:
        self._owner: dict[str, Hashable] = {}
        self._waiting: dict[Hashable, dict[str, float]] = {}

    def expect(self, owner: Hashable, uid: str, now: float) -> None:
        """`owner` has made or deleted the object `uid` and waits for the news of it."""
        self._owner[uid] = owner
        self._waiting.setdefault(owner, {})[uid] = now

    def observe(self, uid: str) -> Hashable | None:
        """The watch has told of `uid`; the owner that waited for it, if one did."""
        owner = self._owner.pop(uid, None)
        if owner is not None:
            waiting = self._waiting[owner]
            waiting.pop(uid, None)
            if not waiting:
                del self._waiting[owner]
        return owner

    def is_satisfied(self, owner: Hashable, now: float) -> bool:
        """Whether `owner` has seen all that it waited for, or has waited long enough."""
        overdue = [uid for uid, at in self._waiting.get(owner, {}).items() if now - at >= EXPECTATIONS_TIMEOUT_SECONDS]
        for uid in overdue:
            self.observe(uid)
        return owner not in self._waiting
