"""How a call can fail: refused by the server, or not answered by it."""

from __future__ import annotations

import socket
import ssl
from typing import Final

from pyscheduler.api import ApiError

UNREACHABLE: Final = "Unreachable"
"""ApiError.reason: no connection could be made, so nothing was sent."""
LOST: Final = "ConnectionLost"
"""ApiError.reason: the connection broke; whether the server acted is not known."""
TIMEOUT: Final = "Timeout"
"""ApiError.reason: no answer in time; whether the server acted is not known."""
DISTRUST: Final = "its certificate is not trusted"
NOT_LEADING: Final = "NotLeading"
"""ApiError.reason: the call was not sent, because it would write and another may be the leader."""


class RequestError(ApiError):
    """An ApiError that also knows how long the server asked to be left alone, in seconds."""

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(status, reason, message)
        self.retry_after = retry_after


def unanswered(error: ApiError) -> bool:
    """Whether a call may or may not have been carried out: it was sent, and no answer came."""
    return error.status == 0 and error.reason in (LOST, TIMEOUT)


def unreachable_error(error: BaseException) -> RequestError:
    """No connection could be made, because of `error`."""
    return RequestError(0, UNREACHABLE, _cause(error))


def not_leading_error() -> RequestError:
    """The call was not sent: it is for the leader to make."""
    return RequestError(0, NOT_LEADING, "this scheduler does not hold the lease")


def connection_lost_error(error: BaseException | None) -> RequestError:
    """The connection broke before the whole answer was there."""
    return RequestError(0, LOST, f"the connection broke: {_one_line(error) if error else 'the server closed it'}")


def timeout_error() -> RequestError:
    """No answer came in time."""
    return RequestError(0, TIMEOUT, "no answer in time")


def _cause(error: BaseException) -> str:
    """What the operating system or TLS said, as one would say it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{DISTRUST}: {error.verify_message or _one_line(error)}"
    if isinstance(error, socket.gaierror):
        return "its name cannot be resolved"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return _one_line(error)


def _one_line(error: BaseException) -> str:
    said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(said).split())
