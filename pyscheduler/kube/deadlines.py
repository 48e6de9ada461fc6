"""Deadlines of all network calls to an API server, in one place.

HTTP/1.1 has no ping, and a peer that has lost its backend may go on acknowledging TCP for hours: the only proof that a
connection is alive is an answer on it. So every call has a deadline, and no watch lives long: it is renewed from its
last resourceVersion on whatever connection works. kube-apiserver ends such a watch itself and sends a bookmark two
seconds before, so renewing costs one request and no list.
"""

from __future__ import annotations

import random
from typing import Final

import msgspec


class Deadlines(msgspec.Struct, frozen=True):
    """Seconds. The defaults bound the time to the first binding after a silent death to less than 60 s."""

    connect: float = 10.0
    """Until a connection is made: name resolution, TCP and TLS handshakes."""
    answer: float = 15.0
    """Until a call has its whole answer, waiting for a connection included; for a watch, until its head has come."""
    read: float = 30.0
    """Until a list has its first byte, and between two reads of it: a large one takes the server seconds to begin."""
    watch: float = 25.0
    """The longest timeoutSeconds of a watch."""
    grace: float = 5.0
    """Seconds that a server may be late to end a watch. Then the connection is taken to be dead."""
    unwatched: float = 60.0
    """Seconds that a resource may go unwatched before the scheduler reports that it is not ready."""
    credentials: float = 10.0
    """Until an exec plugin or a token file has given new credentials."""

    def within(self, seconds: float) -> Deadlines:
        """Deadlines of calls that must fail within `seconds`."""
        return msgspec.structs.replace(self, connect=min(self.connect, seconds), answer=min(self.answer, seconds))

    def watch_seconds(self, rng: random.Random) -> int:
        """The timeoutSeconds of one watch: spread out, so that watches that began together do not stay together."""
        return max(1, round(self.watch * rng.uniform(0.8, 1.0)))


KEEP_ALIVE: Final = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 20_000))
"""Socket options for a peer that drops everything: the kernel ends an idle connection after 30 s (in seconds and
probes), one with unacknowledged data after 20 s (in milliseconds)."""

__all__ = ["KEEP_ALIVE", "Deadlines"]
