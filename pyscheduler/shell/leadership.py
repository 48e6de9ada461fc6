"""Whether this scheduler may act: always where it is alone, else only while it holds the lease."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

Work = Callable[[], Awaitable[None]]


class LeaseLost(Exception):
    """Another may act from now on. The message says why, in one line."""


class Leadership(Protocol):
    """The right to act."""

    @property
    def lost(self) -> bool:
        """Whether it was ours and is another's by now, without our having given it back."""

    def holds(self) -> bool:
        """Whether it is ours at this very moment; asked before each write."""

    async def lead(self, work: Work) -> None:
        """Wait for the right, do `work` with it, and give it back. LeaseLost if it is lost meanwhile.

        Cancelled, it cancels `work`, and keeps the right for as long as that takes to end.
        """


class AlwaysLeader:
    """There is nobody else."""

    lost: Final = False

    def holds(self) -> bool:
        return True

    async def lead(self, work: Work) -> None:
        await work()


ALWAYS_LEADER: Final = AlwaysLeader()
