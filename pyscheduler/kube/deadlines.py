"""Deadlines of all network calls to API servers.

HTTP/1.1 has no ping, and a proxy that has lost its backend may acknowledge TCP for hours: only a response proves that a
connection works. So every call has a deadline, and watches are short: each is renewed from its last resourceVersion on
any working connection. kube-apiserver ends such a watch by itself and sends a bookmark two seconds before, so a renewal
costs one request and no list.
"""

from __future__ import annotations

import random
from typing import Final

import msgspec


class Deadlines(msgspec.Struct, frozen=True):
    """Deadlines in seconds. The defaults limit the time to the first binding after a silent connection loss to 60 s."""

    connect: float = 10.0
    """Name resolution, TCP and TLS handshakes."""
    response: float = 15.0
    """Complete response of a call, including the wait for a connection; for a watch, its headers."""
    read: float = 30.0
    """First byte of a list and the time between two reads: the server needs seconds to start a large one."""
    watch: float = 25.0
    """Maximum timeoutSeconds of a watch."""
    grace: float = 5.0
    """Delay after which a watch that the server has not ended counts as dead."""
    unwatched: float = 60.0
    """Time without a watch after which the scheduler reports that it is not ready."""
    credentials: float = 10.0
    """New credentials from an exec plugin or a token file."""

    def within(self, seconds: float) -> Deadlines:
        """Return deadlines for calls that must fail within `seconds`."""
        return msgspec.structs.replace(self, connect=min(self.connect, seconds), response=min(self.response, seconds))

    def watch_seconds(self, rng: random.Random) -> int:
        """Return a random timeoutSeconds, so that watches that started together are renewed at different times."""
        return max(1, round(self.watch * rng.uniform(0.8, 1.0)))


KEEP_ALIVE: Final = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 20_000))
"""Socket options for a peer that drops all packets.

The kernel closes an idle connection after 30 s (in seconds and probes), one with unacknowledged data after 20 s (in
milliseconds).
"""

__all__ = ["KEEP_ALIVE", "Deadlines"]
