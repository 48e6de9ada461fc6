"""The authorities that clients' certificates are checked with: of a file, or those that the cluster tells everyone.

An API server publishes its own in a ConfigMap, and kube-scheduler reads them there too. Nothing is read before somebody
connects, and an API server that does not answer holds nobody up for long: without authorities no certificate is asked
for, and whoever has no other way to say who they are is nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
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


class FileAuthorities:
    """`--client-ca-file` and its like; a file that has become unreadable leaves what it said before."""

    def __init__(self, file: Path, flag: str = "--client-ca-file") -> None:
        """OSError if it cannot be read."""
        self._file = file
        self._flag = flag
        self._content = file.read_text()

    async def current(self) -> str:
        try:
            self._content = self._file.read_text()
        except (OSError, UnicodeDecodeError) as problem:
            _log.warning(f"{self._flag} cannot be read; what it said before counts", problem)
        return self._content


class Proxies(msgspec.Struct, frozen=True):
    """Front proxies: who signs their certificates, and in which headers they say on whose behalf they ask."""

    authorities: str = ""
    """PEM text."""
    names: tuple[str, ...] = ()
    """The common names of theirs; any, if there are none."""
    user_headers: tuple[str, ...] = ("x-remote-user",)
    uid_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ("x-remote-group",)
    extra_prefixes: tuple[str, ...] = ("x-remote-extra-",)


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] = msgspec.field(default_factory=dict)


class ConfigMapAuthorities:
    """The ConfigMap kube-system/extension-apiserver-authentication, read again from time to time."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._content: str | None = None
        self._due = clock.now()
        self._reading: asyncio.Task[None] | None = None
        self._complaint = ""
        self.proxies: Proxies | None = None
        """What the ConfigMap says of front proxies; None if it does not."""

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
            data = msgspec.json.decode(content, type=_ConfigMap).data
            self.proxies = _proxies(data)
            self._content = data.get("client-ca-file", "")
        except msgspec.MsgspecError as problem:
            raise ApiError(0, "UnreadableResponse", f"{CONFIG_MAP} cannot be read: {problem}") from None
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


class TrustedAuthorities:
    """Whose certificates count: those of clients' authorities, and those of front proxies'."""

    def __init__(
        self,
        clients: ClientAuthorities | None,
        lookup: ConfigMapAuthorities | None = None,
        proxies: tuple[FileAuthorities, Proxies] | None = None,
    ) -> None:
        """`proxies` are a file and what else flags say of them; without, it is what `lookup` finds in the cluster."""
        self._clients = clients
        self._lookup = lookup
        self._given = proxies
        self.known: tuple[str, Proxies | None] = ("", None if proxies is None else proxies[1])
        """As they were last: the authorities of clients as PEM text, and the front proxies."""

    async def current(self) -> str:
        """The certificates of all authorities as PEM text, "" where there are none (yet)."""
        clients = await self._clients.current() if self._clients else ""
        proxies: Proxies | None = None
        if self._given is not None:
            file, said = self._given
            proxies = msgspec.structs.replace(said, authorities=await file.current())
        elif self._lookup is not None:
            await self._lookup.current()
            proxies = self._lookup.proxies
        self.known = (clients, proxies)
        return "\n".join(filter(None, (clients, proxies.authorities if proxies else "")))


def _proxies(data: Mapping[str, str]) -> Proxies | None:
    """What the API server tells of its own proxies' certificates. MsgspecError for what cannot be read."""
    authorities = data.get("requestheader-client-ca-file", "")
    if not authorities:
        return None
    words = {
        field: msgspec.json.decode(data.get(f"requestheader-{key}") or "[]", type=tuple[str, ...])
        for field, key in (
            ("names", "allowed-names"),
            ("user_headers", "username-headers"),
            ("uid_headers", "uid-headers"),
            ("group_headers", "group-headers"),
            ("extra_prefixes", "extra-headers-prefix"),
        )
    }
    return Proxies(authorities, **words)
