"""Durable state: the task records, and the resourceVersion up to which pod events are included in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from pyscheduler.backend.state.identity import StateIdentity
from pyscheduler.backend.task import TaskRecord


class StateProblem(Exception):
    """State that cannot be read or written; the message names the place and what to do."""


class StateInUse(StateProblem):
    """State that another process has open."""


class StateLost(StateProblem):
    """State that another process may have taken (the lease has expired): this process must stop writing."""


class SavedState(msgspec.Struct, frozen=True):
    """Content of the state when it was opened."""

    records: dict[str, TaskRecord] = {}
    resource_version: str | None = None
    """resourceVersion up to which all pod events are included in the records; None if none was saved."""
    identity: StateIdentity | None = None
    """Backend that the state belongs to; None before its first use."""
    place: str = ""
    """Place of the state: a copy has another one, and so another holder of the backend's Lease."""


class StateStore(Protocol):
    """Storage of the backend's records. Only one backend has it open, and it makes one call at a time."""

    async def open(self) -> SavedState:
        """Lock the state for this process and read it. StateInUse if another process has it, StateProblem."""
        ...

    async def bind(self, identity: StateIdentity) -> None:
        """Write the identity of the backend that the state belongs to. StateProblem."""
        ...

    async def check(self) -> None:
        """Raise StateLost if this process can no longer write the state: it was removed, replaced or taken."""
        ...

    async def commit(
        self, changed: Sequence[TaskRecord], resource_version: str | None = None, forgotten: Sequence[str] = ()
    ) -> None:
        """Make the records durable and delete others by id; all is durable when the call returns.

        Each record is written completely or not at all, and the resourceVersion never before the records of its
        commit. Of each record the last committed form counts. StateProblem: a part may be durable; the backend
        commits again all that is unconfirmed. StateLost: the backend stops.
        """
        ...

    async def close(self) -> None:
        """Unlock and close the state. Does nothing if it is not open."""
        ...


__all__ = ["SavedState", "StateIdentity", "StateInUse", "StateLost", "StateProblem", "StateStore"]
