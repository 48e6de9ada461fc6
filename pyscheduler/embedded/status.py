"""Refusals as Kubernetes `Status` objects: what a client of the API server gets instead of an answer.

Codes, reasons and the shape of messages are those of k8s.io/apimachinery/pkg/api/errors, because clients decide by
reason and people read the messages that kubectl prints.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyscheduler.embedded.objects import Json


class ApiError(Exception):
    """A request that is refused. `body()` is the Status object for the client, `code` the HTTP status."""

    def __init__(self, code: int, reason: str, message: str, details: Json | None = None) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, details

    def body(self) -> Json:
        """The metav1.Status that the client receives."""
        body: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        body |= {"message": self.message, "reason": self.reason}
        if self.details:
            body["details"] = self.details
        body["code"] = self.code
        return body


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing wrong with one field of an object (a field.Error)."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def required(field: str, detail: str = "") -> Cause:
    """The field must be set."""
    return Cause(field, "FieldValueRequired", "Required value" + (f": {detail}" if detail else ""))


def invalid_value(field: str, value: Any, detail: str) -> Cause:
    """The field has a value that cannot be."""
    return Cause(field, "FieldValueInvalid", f"Invalid value: {_shown(value)}: {detail}")


def unsupported(field: str, value: Any, allowed: Iterable[str]) -> Cause:
    """The field must have one of the `allowed` values."""
    choices = ", ".join(f'"{choice}"' for choice in sorted(allowed))
    return Cause(field, "FieldValueNotSupported", f"Unsupported value: {_shown(value)}: supported values: {choices}")


def forbidden_value(field: str, detail: str) -> Cause:
    """The field may not be set, or may not be changed."""
    return Cause(field, "FieldValueForbidden", f"Forbidden: {detail}")


def duplicate(field: str, value: Any) -> Cause:
    """The value occurs twice where it must be unique."""
    return Cause(field, "FieldValueDuplicate", f"Duplicate value: {_shown(value)}")


def wrong_type(field: str, value: Any, detail: str) -> Cause:
    """The field has a value of another type than its schema asks for."""
    return Cause(field, "FieldValueTypeInvalid", f"Invalid value: {_shown(value)}: {detail}")


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if not isinstance(value, dict | list) else json.dumps(value)[:200]


def _qualified(name: str, group: str) -> str:
    return f"{name}.{group}" if group else name


def _details(name: str, group: str, kind: str) -> Json:
    return {key: value for key, value in (("name", name), ("group", group), ("kind", kind)) if value}


def not_found(plural: str, group: str, name: str) -> ApiError:
    """404: there is no such object."""
    message = f'{_qualified(plural, group)} "{name}" not found'
    return ApiError(404, "NotFound", message, _details(name, group, plural))


def no_such_path() -> ApiError:
    """404: nothing is served at this path."""
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def already_exists(plural: str, group: str, name: str) -> ApiError:
    """409: the name is taken."""
    message = f'{_qualified(plural, group)} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, _details(name, group, plural))


def conflict(plural: str, group: str, name: str, why: str) -> ApiError:
    """409: the object is not in the state that the request expects."""
    message = f'Operation cannot be fulfilled on {_qualified(plural, group)} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(name, group, plural))


def invalid(kind: str, group: str, name: str, causes: list[Cause]) -> ApiError:
    """422: the object was understood and is wrong; each cause names a field."""
    text = str(causes[0]) if len(causes) == 1 else "[" + ", ".join(map(str, causes)) + "]"
    message = f'{_qualified(kind, group)} "{name}" is invalid: {text}'
    listed = [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]
    return ApiError(422, "Invalid", message, {**_details(name, group, kind), "causes": listed})


def bad_request(message: str) -> ApiError:
    """400: the request cannot be understood."""
    return ApiError(400, "BadRequest", message)


def forbidden(plural: str, group: str, name: str, why: str) -> ApiError:
    """403: admission says no."""
    message = f'{_qualified(plural, group)} "{name}" is forbidden: {why}'
    return ApiError(403, "Forbidden", message, _details(name, group, plural))


def expired(message: str) -> ApiError:
    """410: the history that the request needs has been compacted away; list again."""
    return ApiError(410, "Expired", message)


def too_large_revision(wanted: int, current: int) -> ApiError:
    """504: the client has seen a resourceVersion that this server has not reached."""
    message = f"Timeout: Too large resource version: {wanted}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return ApiError(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})


def method_not_allowed(message: str = "the server does not allow this method on the requested resource") -> ApiError:
    """405: the path exists, the verb does not."""
    return ApiError(405, "MethodNotAllowed", message)


def unsupported_media_type(accepted: Iterable[str]) -> ApiError:
    """415: the body is in a form that is not read here."""
    return ApiError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted),
    )


def too_many_requests(message: str, cause: str, retry_after: int) -> ApiError:
    """429: a disruption budget says not now. `retry_after` in seconds, 0 for no advice."""
    details: Json = {"causes": [{"reason": "DisruptionBudget", "message": cause}]}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return ApiError(429, "TooManyRequests", message, details)


def success(details: Json | None = None) -> Json:
    """The Status of a request that succeeded and has no object to show."""
    body: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return body | {"details": details} if details else body
