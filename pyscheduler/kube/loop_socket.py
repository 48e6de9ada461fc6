"""Sockets that event loops take over."""

from __future__ import annotations

import socket
from typing import Any


class LoopSocket(socket.socket):
    """A socket that is closed by its event loop or by `close`, but not by being freed.

    If a server resets a connection during the TLS handshake, uvloop (0.23) closes the descriptor but leaves its
    number to the socket object that it was given. An ordinary one closes that number again when it is freed, and
    with it the connection that has it by then, whose transport does not notice. From then on every connection fails
    to be opened with "File descriptor ... is used by transport", since the kernel assigns that number again and
    again.
    """

    def __del__(self) -> None:
        self.detach()


def loop_socket(address: tuple[Any, ...]) -> LoopSocket:
    """Return a socket for an address of `getaddrinfo`; for `socket_factory` of aiohappyeyeballs and aiohttp."""
    family, kind, protocol = address[:3]
    return LoopSocket(family, kind, protocol)
