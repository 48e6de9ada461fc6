"""Leadership: permission to write, held always without leader election, else only while holding the lease."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

Work = Callable[[], Awaitable[None]]


class LeaseLost(Exception):
    """Leadership was lost; another process may act now. The message gives the reason in one line."""


class Leadership(Protocol):
    """Permission to schedule and write."""

    @property
    def lost(self) -> bool:
        """Return True if leadership was held and ended without being released."""

    def holds(self) -> bool:
        """Return True if leadership is held now; checked before each write."""

    async def lead(self, work: Work) -> None:
        """Wait for leadership, run `work` while holding it, then release it. LeaseLost if it is lost.

        When cancelled, it cancels `work` and keeps leadership until `work` has ended.
        """


class AlwaysLeader:
    """Leadership without leader election."""

    lost: Final = False

    def holds(self) -> bool:
        return True

    async def lead(self, work: Work) -> None:
        await work()


ALWAYS_LEADER: Final = AlwaysLeader()
