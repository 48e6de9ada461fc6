"""Sockets that event loops take over."""

from __future__ import annotations

import socket
from typing import Any


class LoopSocket(socket.socket):
    """A socket that is closed by its event loop or by `close`, but not by being freed.

    If a server resets a connection during the TLS handshake, uvloop (0.23) closes the descriptor but leaves its
    number to the socket object that it was given. An ordinary one closes that number again when it is freed, and
    with it the connection that has the number by then. The transport of that connection stays open, so all further
    connections, to which the kernel assigns the number again, fail with "File descriptor ... is used by transport".
    """

    def __del__(self) -> None:
        self.detach()


def loop_socket(address: tuple[Any, ...]) -> LoopSocket:
    """Return a socket for an address of `getaddrinfo`; for `socket_factory` of aiohappyeyeballs and aiohttp."""
    family, kind, protocol = address[:3]
    return LoopSocket(family, kind, protocol)
