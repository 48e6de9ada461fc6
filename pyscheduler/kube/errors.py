"""Errors of API server calls: rejected by the server, or without a response."""

from __future__ import annotations

import socket
import ssl
from typing import Final

import msgspec

from pyscheduler.api import ApiError

UNREACHABLE: Final = "Unreachable"
"""ApiError.reason: no connection could be opened, so nothing was sent."""
LOST: Final = "ConnectionLost"
"""ApiError.reason: the connection broke; the server may have acted."""
TIMEOUT: Final = "Timeout"
"""ApiError.reason: no response in time; the server may have acted."""
DISTRUST: Final = "its certificate is not trusted"
NOT_LEADING: Final = "NotLeading"
"""ApiError.reason: the write was not sent, because another process may be the leader."""


class StatusCause(msgspec.Struct, frozen=True):
    """One of the causes of an error; a machine reads `reason` (NamespaceTerminating, FieldValueInvalid …)."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, frozen=True, rename="camel"):
    """Details of the Status in an error response: the object that the error is about, and the causes."""

    name: str = ""
    kind: str = ""
    causes: tuple[StatusCause, ...] | None = None
    retry_after_seconds: int = 0


class RequestError(ApiError):
    """ApiError with the seconds after which the server wants the call retried, and the details of its Status."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        retry_after: float | None = None,
        details: StatusDetails | None = None,
    ) -> None:
        super().__init__(status, reason, message)
        self.retry_after = retry_after
        self.details = details


def unanswered(error: ApiError) -> bool:
    """Return True if the call was sent and no response came, so that it may have been executed."""
    return error.status == 0 and error.reason in (LOST, TIMEOUT)


def is_not_found(error: ApiError) -> bool:
    """Return True if the object does not exist (any more)."""
    return error.status == 404


def is_conflict(error: ApiError) -> bool:
    """Return True if the object exists already, has changed, or has another uid."""
    return error.status == 409


def unreachable_error(error: BaseException) -> RequestError:
    """Return the error for a connection that could not be opened because of `error`."""
    return RequestError(0, UNREACHABLE, _cause(error))


def not_leading_error() -> RequestError:
    """Return the error for a write that was not sent, because this process is not the leader."""
    return RequestError(0, NOT_LEADING, "this scheduler does not hold the lease")


def connection_lost_error(error: BaseException | None) -> RequestError:
    """Return the error for a connection that broke before the whole response arrived."""
    return RequestError(0, LOST, f"the connection broke: {_one_line(error) if error else 'the server closed it'}")


def timeout_error() -> RequestError:
    """Return the error for a response that did not arrive in time."""
    return RequestError(0, TIMEOUT, "no answer in time")


def _cause(error: BaseException) -> str:
    """Return a readable message for an error of the operating system or TLS."""
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
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())
