"""Ownership of the state in the cluster: a Lease that its owner acquires, renews and releases.

`core/leader_election.py` decides when it may be acquired and until when it is held. The Lease only elects the owner;
late writes of a former owner fail because a new owner changes the resourceVersion of each object (`cluster.py`).
"""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from pyscheduler.api import ApiError
from pyscheduler.backend.errors import is_in_terminating_namespace
from pyscheduler.backend.state import StateInUse, StateLost, StateProblem
from pyscheduler.backend.state.objects import CONFLICT, NOT_FOUND, ObjectsApi, get_or_none, is_ambiguous
from pyscheduler.core.leader_election import LeaderElector, Lease, LeaseTimings
from pyscheduler.kube.paths import LEASES

TERMS: Final = LeaseTimings(lease_duration=30.0, renew_deadline=20.0, retry_period=5.0)
"""Timings in seconds. After a crash of the owner others wait for `lease_duration`."""


class StateLease:
    """Claim of one process to the Lease `name`."""

    def __init__(
        self,
        objects: ObjectsApi,
        name: str,
        wall: Callable[[], float],
        terms: LeaseTimings = TERMS,
        identity: str = "",
    ) -> None:
        """`wall` returns seconds since the epoch, for the Lease's timestamps; `identity` "": that of this process."""
        self.identity = identity or f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"
        self._objects, self._name, self._wall = objects, name, wall
        self._candidate = LeaderElector(self.identity, terms)
        self._object: dict[str, Any] | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._lost_to = self._failure = ""
        self._loop: asyncio.AbstractEventLoop | None = None

    async def acquire(self, *, renew: bool = True) -> None:
        """Acquire the Lease and, with `renew`, keep renewing it. StateInUse if another process renews it; StateProblem.

        A Lease that was not released is observed until it expires, which shows that its owner is dead.
        """
        self._loop = asyncio.get_running_loop()
        first = await self._read()
        while self._candidate.wait(_now()):
            await asyncio.sleep(self._candidate.pause(_now(), 0.0))
            if await self._read() != first and self._candidate.wait(_now()):
                break
        while self._candidate.wait(_now()) or not await self._claim():
            await self._read()  # another process wrote it at the same time, or no response came
            if self._candidate.holder not in ("", self.identity):
                raise StateInUse(
                    f"the Lease {self._name} is held by {self._candidate.holder}: only one process can use a state, "
                    "and each backend of a namespace needs its own name (--name)"
                )
        if renew:
            self._renewing = asyncio.create_task(self._renew())

    @property
    def is_held(self) -> bool:
        """True while no other process can have acquired the Lease. Any thread may read it."""
        return self._loop is not None and self._candidate.is_leader(self._loop.time())

    @property
    def problem(self) -> str:
        """Reason why nothing may be written now, "" while the Lease is held."""
        if self.is_held:
            return ""
        return f"the Lease {self._name} has expired; pods are not changed until it is renewed{self._failure}"

    async def keep(self) -> None:
        """Renew the Lease until cancelled, also after it has expired during an outage. StateLost if another has it."""
        while True:
            await asyncio.sleep(self._candidate.terms.retry_period)
            try:
                if await self._claim():
                    self._failure = ""
                    continue
                await self._read()
            except (ApiError, StateProblem) as problem:
                self._failure = f": {problem}"
                continue
            if self._candidate.holder not in ("", self.identity):
                self._lost_to = self._candidate.holder
                self._candidate.resign()
                self.check()

    def check(self) -> None:
        """Raise StateLost if another process has the Lease; StateProblem until it is renewed if it has expired.

        It expires when the API server is away or the event loop is blocked. If no other process has written it, it can
        still be renewed.
        """
        if self._lost_to:
            why = f"{self._lost_to} has acquired it"
            raise StateLost(f"the Lease {self._name} is lost: {why}; this process stops writing")
        if not self._candidate.is_leader(_now()):
            raise StateProblem(f"the Lease {self._name} could not be renewed in time")

    async def release(self) -> None:
        """Release the Lease if it is still held, so that others can acquire it at once."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
            self._renewing = None
        if self._candidate.is_leader(_now()):
            self._candidate.resign()
            with suppress(ApiError):  # it expires by itself
                await self._write(self._candidate.resignation(self._now_text()))

    async def _renew(self) -> None:
        while not self._lost_to:
            await asyncio.sleep(self._candidate.terms.retry_period)
            try:
                if await self._claim():
                    continue
                await self._read()
            except (ApiError, StateProblem):
                continue
            if self._object is not None and self._candidate.holder != self.identity:
                self._lost_to = self._candidate.holder or "another process"
                self._candidate.resign()

    async def _read(self) -> Lease | None:
        """Read and observe the Lease; None if it does not exist. StateProblem."""
        try:
            self._object = await get_or_none(self._objects, LEASES, self._name)
        except ApiError as problem:
            raise StateProblem(f"the Lease {self._name} cannot be read: {problem}") from None
        lease = None if self._object is None else msgspec.convert(self._object.get("spec") or {}, Lease)
        self._candidate.observe(lease, _now())
        return lease

    async def _claim(self) -> bool:
        """Acquire or renew the Lease; False after a conflict or deletion, or without a response. StateProblem."""
        claim, sent, existed = self._candidate.claim(self._now_text()), _now(), self._object is not None
        try:
            await self._write(claim)
        except ApiError as problem:
            if is_in_terminating_namespace(problem):
                # No other process can create the Lease there, and pods are still to be released.
                self._candidate.accepted(claim, sent)
                return True
            was_deleted = existed and problem.status == NOT_FOUND
            if problem.status == CONFLICT or was_deleted or is_ambiguous(problem):
                return False
            raise StateProblem(f"the Lease {self._name} cannot be written: {problem}") from None
        self._candidate.accepted(claim, sent)
        return True

    async def _write(self, lease: Lease) -> None:
        spec = msgspec.to_builtins(lease)
        if self._object is None:
            body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": self._name}}
            self._object = await self._objects.create_object(LEASES, {**body, "spec": spec})
        else:
            body = {**self._object, "spec": {**(self._object.get("spec") or {}), **spec}}
            self._object = await self._objects.replace_object(LEASES, body)

    def _now_text(self) -> str:
        return datetime.fromtimestamp(self._wall(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _now() -> float:
    return asyncio.get_running_loop().time()
