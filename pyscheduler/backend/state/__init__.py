"""State that survives: the table of tasks, and the resource_version in the stream of pod events up to which it accounts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from pyscheduler.backend.task import TaskRecord


class StateProblem(Exception):
    """The state cannot be read or written; the message names the place and says what to do."""


class StateInUse(StateProblem):
    """Another process has this state."""


class StateLost(StateProblem):
    """This process no longer has the state (its lease is over): it must stop and may write nothing more."""


class SavedState(msgspec.Struct, frozen=True):
    """What was there when the state was opened."""

    records: dict[str, TaskRecord] = {}
    resource_version: str | None = None
    """The resourceVersion that every pod event up to is accounted for; None if there is none yet."""


class StateStore(Protocol):
    """Where the backend keeps its records. One backend calls it at a time, one call at a time."""

    async def open(self) -> SavedState:
        """Take the state for this process and read it. StateInUse if another process has it, StateProblem otherwise."""
        ...

    async def commit(
        self, changed: Sequence[TaskRecord], resource_version: str | None = None, forgotten: Sequence[str] = ()
    ) -> None:
        """Make the records durable, and forget others by id. When it returns it has happened.

        Each record is kept whole or not at all, and the resource_version never before the records of the same commit. A record
        is wanted as it is in the last commit that had it. StateProblem: it may have happened in part; the backend
        tries again with everything that is not yet known to be durable. StateLost: it stops.
        """
        ...

    async def close(self) -> None:
        """Give the state back. Harmless when it is not open."""
        ...


__all__ = ["SavedState", "StateInUse", "StateLost", "StateProblem", "StateStore"]
