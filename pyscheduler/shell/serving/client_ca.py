"""CA certificates that verify client certificates: from a file, or from the cluster's ConfigMap.

An API server publishes its CAs in a ConfigMap, which kube-scheduler reads too. It is first read when a client connects,
and an API server that does not respond delays that client only briefly: without CAs no client certificate is requested,
and clients without a token are anonymous.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

import msgspec

from pyscheduler import logs
from pyscheduler.api import ApiError
from pyscheduler.clock import Clock
from pyscheduler.kube.connection import Connection

CONFIG_MAP: Final = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
REREAD: Final = 60.0
"""Seconds after which the ConfigMap is read again; the current CAs stay in use meanwhile."""
RETRY: Final = 10.0
"""Seconds until the next read after a failed one."""
PATIENCE: Final = 2.0
"""Seconds that the first connection waits for the ConfigMap."""
_log = logs.get("clientca")


class ClientAuthorities(Protocol):
    """Source of CA certificates."""

    async def current(self) -> str:
        """Return the certificates as PEM text, "" if there are none (yet)."""


class FileAuthorities:
    """CAs of `--client-ca-file` and similar flags; if the file becomes unreadable, its last content stays in use."""

    def __init__(self, file: Path, flag: str = "--client-ca-file") -> None:
        """OSError if the file cannot be read."""
        self._file = file
        self._flag = flag
        self._log = logs.LimitedLog("clientca")
        self._content = file.read_text()

    async def current(self) -> str:
        try:
            self._content = self._file.read_text()
        except (OSError, UnicodeDecodeError) as problem:
            self._log.warning(f"Cannot read {self._flag}, keeping its last content", problem)
        return self._content


class Proxies(msgspec.Struct, frozen=True):
    """CA certificates of front proxies, and the headers in which these name the user."""

    authorities: str = ""
    """PEM text."""
    names: tuple[str, ...] = ()
    """Allowed common names of their certificates; empty allows any."""
    user_headers: tuple[str, ...] = ("x-remote-user",)
    uid_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ("x-remote-group",)
    extra_prefixes: tuple[str, ...] = ("x-remote-extra-",)


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] = msgspec.field(default_factory=dict)


class ConfigMapAuthorities:
    """CAs in the ConfigMap kube-system/extension-apiserver-authentication, read periodically."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._content: str | None = None
        self._due = clock.now()
        self._reading: asyncio.Task[None] | None = None
        self._last_problem = ""
        self.proxies: Proxies | None = None
        """Front proxies in the ConfigMap; None if it has none."""

    async def current(self) -> str:
        if self._reading is None and self._clock.now() >= self._due:
            self._reading = asyncio.create_task(self._try_to_read())
        if self._content is None and self._reading is not None:
            await asyncio.wait({self._reading}, timeout=PATIENCE)
        return self._content or ""

    async def read(self) -> None:
        """Read the ConfigMap. ApiError."""
        content = await self._connection.request("GET", CONFIG_MAP)
        try:
            data = msgspec.json.decode(content, type=_ConfigMap).data
            self.proxies = _proxies(data)
            self._content = data.get("client-ca-file", "")
        except msgspec.MsgspecError as problem:
            raise ApiError(0, "UnreadableResponse", f"cannot decode {CONFIG_MAP}: {problem}") from None
        self._due = self._clock.now() + REREAD

    async def _try_to_read(self) -> None:
        try:
            await self.read()
            self._last_problem = ""
        except ApiError as problem:
            self._due = self._clock.now() + RETRY
            if str(problem) != self._last_problem:
                self._last_problem = str(problem)
                _log.warning("Cannot verify client certificates, no CA is available", problem)
        finally:
            self._reading = None


class TrustedAuthorities:
    """CAs of accepted client certificates: those of clients and those of front proxies."""

    def __init__(
        self,
        clients: ClientAuthorities | None,
        lookup: ConfigMapAuthorities | None = None,
        proxies: tuple[FileAuthorities, Proxies] | None = None,
    ) -> None:
        """`proxies` is a CA file with the settings of flags; without it, the ConfigMap in `lookup` is used."""
        self._clients = clients
        self._lookup = lookup
        self._from_flags = proxies
        self.known: tuple[str, Proxies | None] = ("", None if proxies is None else proxies[1])
        """Result of the last `current`: the CAs of clients as PEM text, and the front proxies."""

    async def current(self) -> str:
        """Return the certificates of all CAs as PEM text, "" if there are none (yet)."""
        clients = await self._clients.current() if self._clients else ""
        proxies: Proxies | None = None
        if self._from_flags is not None:
            file, settings = self._from_flags
            proxies = msgspec.structs.replace(settings, authorities=await file.current())
        elif self._lookup is not None:
            await self._lookup.current()
            proxies = self._lookup.proxies
        self.known = (clients, proxies)
        return "\n".join(filter(None, (clients, proxies.authorities if proxies else "")))


def _proxies(data: Mapping[str, str]) -> Proxies | None:
    """Return the front proxies in the ConfigMap, None if there are none. MsgspecError if malformed."""
    authorities = data.get("requestheader-client-ca-file", "")
    if not authorities:
        return None
    fields = {
        field: msgspec.json.decode(data.get(f"requestheader-{key}") or "[]", type=tuple[str, ...])
        for field, key in (
            ("names", "allowed-names"),
            ("user_headers", "username-headers"),
            ("uid_headers", "uid-headers"),
            ("group_headers", "group-headers"),
            ("extra_prefixes", "extra-headers-prefix"),
        )
    }
    return Proxies(authorities, **fields)
