"""The authorities that clients' certificates are checked with: of a file, or those that the cluster tells everyone.

An API server publishes its own in a ConfigMap, and kube-scheduler reads them there too. Nothing is read before somebody
connects, and an API server that does not answer holds nobody up for long: without authorities no certificate is asked
for, and whoever has no other way to say who they are is nobody.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final, Protocol

import msgspec

from pyscheduler.api import ApiError
from pyscheduler.shell import logs
from pyscheduler.shell.clock import Clock
from pyscheduler.shell.kube.connection import Connection

CONFIG_MAP: Final = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
REREAD: Final = 60.0
"""Seconds after which the ConfigMap is read again; the old authorities count until it has been."""
RETRY: Final = 10.0
"""Seconds until then if it could not be read."""
PATIENCE: Final = 2.0
"""Seconds that the first connection waits for it."""
_log = logs.get("clientca")


class ClientAuthorities(Protocol):
    """Where the authorities come from."""

    async def current(self) -> str:
        """Their certificates as PEM text, "" where there are none (yet)."""


class AuthoritiesOfFile:
    """`--client-ca-file`; a file that has become unreadable leaves what it said before."""

    def __init__(self, file: Path) -> None:
        """OSError if it cannot be read."""
        self._file = file
        self._content = file.read_text()

    async def current(self) -> str:
        try:
            self._content = self._file.read_text()
        except (OSError, UnicodeDecodeError) as problem:
            _log.warning("--client-ca-file cannot be read; what it said before counts", problem)
        return self._content


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] = msgspec.field(default_factory=dict)


class AuthoritiesOfCluster:
    """The ConfigMap kube-system/extension-apiserver-authentication, read again from time to time."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._content: str | None = None
        self._due = clock.now()
        self._reading: asyncio.Task[None] | None = None
        self._complaint = ""

    async def current(self) -> str:
        if self._reading is None and self._clock.now() >= self._due:
            self._reading = asyncio.create_task(self._try_to_read())
        if self._content is None and self._reading is not None:
            await asyncio.wait({self._reading}, timeout=PATIENCE)
        return self._content or ""

    async def read(self) -> None:
        """Read it now. ApiError if that cannot be done."""
        content = await self._connection.request("GET", CONFIG_MAP)
        try:
            self._content = msgspec.json.decode(content, type=_ConfigMap).data.get("client-ca-file", "")
        except msgspec.MsgspecError as problem:
            raise ApiError(0, "UnreadableAnswer", f"{CONFIG_MAP} cannot be read: {problem}") from None
        self._due = self._clock.now() + REREAD

    async def _try_to_read(self) -> None:
        try:
            await self.read()
            self._complaint = ""
        except ApiError as problem:
            self._due = self._clock.now() + RETRY
            if str(problem) != self._complaint:
                self._complaint = str(problem)
                _log.warning("Client certificates cannot be checked: no authorities to check them with", problem)
        finally:
            self._reading = None
