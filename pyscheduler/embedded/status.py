"""Errors of the API server as Kubernetes `Status` objects.

Codes, reasons and the form of messages are those of k8s.io/apimachinery/pkg/api/errors: clients branch on the reason,
and kubectl prints the message.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyscheduler.embedded.objects import Json


class ApiStatusError(Exception):
    """A rejected request. `body()` is the Status object for the client, `code` the HTTP status."""

    def __init__(self, code: int, reason: str, message: str, details: Json | None = None) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, details

    def body(self) -> Json:
        """Return the metav1.Status that the client receives."""
        body: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        body |= {"message": self.message, "reason": self.reason}
        if self.details:
            body["details"] = self.details
        body["code"] = self.code
        return body


@dataclass(frozen=True, slots=True)
class Cause:
    """One invalid field of an object (a field.Error)."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def required(field: str, detail: str = "") -> Cause:
    """Return the cause for a field that must be set."""
    return Cause(field, "FieldValueRequired", "Required value" + (f": {detail}" if detail else ""))


def invalid_value(field: str, value: Any, detail: str) -> Cause:
    """Return the cause for a field with an invalid value."""
    return Cause(field, "FieldValueInvalid", f"Invalid value: {_shown(value)}: {detail}")


def unsupported(field: str, value: Any, allowed: Iterable[str]) -> Cause:
    """Return the cause for a field with a value that is not in `allowed`."""
    choices = ", ".join(f'"{choice}"' for choice in sorted(allowed))
    return Cause(field, "FieldValueNotSupported", f"Unsupported value: {_shown(value)}: supported values: {choices}")


def forbidden_value(field: str, detail: str) -> Cause:
    """Return the cause for a field that may not be set or may not be changed."""
    return Cause(field, "FieldValueForbidden", f"Forbidden: {detail}")


def duplicate(field: str, value: Any) -> Cause:
    """Return the cause for a value that must be unique."""
    return Cause(field, "FieldValueDuplicate", f"Duplicate value: {_shown(value)}")


def too_many(field: str, count: int, limit: int) -> Cause:
    """Return the cause for a list that is too long."""
    items = "item" if limit == 1 else "items"
    return Cause(field, "FieldValueTooMany", f"Too many: {count}: must have at most {limit} {items}")


def wrong_type(field: str, value: Any, detail: str) -> Cause:
    """Return the cause for a value of another type than in the schema."""
    return Cause(field, "FieldValueTypeInvalid", f"Invalid value: {_shown(value)}: {detail}")


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if not isinstance(value, dict | list) else json.dumps(value)[:200]


def _qualified(name: str, group: str) -> str:
    return f"{name}.{group}" if group else name


def _details(name: str, group: str, kind: str) -> Json:
    return {key: value for key, value in (("name", name), ("group", group), ("kind", kind)) if value}


def not_found(plural: str, group: str, name: str) -> ApiStatusError:
    """Return 404: there is no such object."""
    message = f'{_qualified(plural, group)} "{name}" not found'
    return ApiStatusError(404, "NotFound", message, _details(name, group, plural))


def no_such_path() -> ApiStatusError:
    """Return 404: the path is not served."""
    return ApiStatusError(404, "NotFound", "the server could not find the requested resource")


def already_exists(plural: str, group: str, name: str) -> ApiStatusError:
    """Return 409: the name is in use."""
    message = f'{_qualified(plural, group)} "{name}" already exists'
    return ApiStatusError(409, "AlreadyExists", message, _details(name, group, plural))


def conflict(plural: str, group: str, name: str, why: str) -> ApiStatusError:
    """Return 409: the object is not in the state that the request expects."""
    message = f'Operation cannot be fulfilled on {_qualified(plural, group)} "{name}": {why}'
    return ApiStatusError(409, "Conflict", message, _details(name, group, plural))


def invalid(kind: str, group: str, name: str, causes: list[Cause]) -> ApiStatusError:
    """Return 422: the object is invalid; each cause has a field."""
    text = str(causes[0]) if len(causes) == 1 else "[" + ", ".join(map(str, causes)) + "]"
    message = f'{_qualified(kind, group)} "{name}" is invalid: {text}'
    listed = [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]
    return ApiStatusError(422, "Invalid", message, {**_details(name, group, kind), "causes": listed})


def bad_request(message: str) -> ApiStatusError:
    """Return 400: the request is malformed."""
    return ApiStatusError(400, "BadRequest", message)


def forbidden(plural: str, group: str, name: str, why: str) -> ApiStatusError:
    """Return 403: admission rejects the request."""
    message = f'{_qualified(plural, group)} "{name}" is forbidden: {why}'
    return ApiStatusError(403, "Forbidden", message, _details(name, group, plural))


def internal_error(why: str) -> ApiStatusError:
    """Return 500: the server cannot do what the request needs."""
    return ApiStatusError(500, "InternalError", f"Internal error occurred: {why}", {"causes": [{"message": why}]})


def expired(message: str) -> ApiStatusError:
    """Return 410: the history that the request needs has been compacted; the client must relist."""
    return ApiStatusError(410, "Expired", message)


def too_large_revision(wanted: int, current: int) -> ApiStatusError:
    """Return 504: the requested resourceVersion is newer than this server's."""
    message = f"Timeout: Too large resource version: {wanted}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return ApiStatusError(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})


def method_not_allowed(
    message: str = "the server does not allow this method on the requested resource",
) -> ApiStatusError:
    """Return 405: the path exists, the verb does not."""
    return ApiStatusError(405, "MethodNotAllowed", message)


def unsupported_media_type(accepted: Iterable[str]) -> ApiStatusError:
    """Return 415: the media type of the body is not supported."""
    return ApiStatusError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted),
    )


def too_many_requests(message: str, cause: str, retry_after: int) -> ApiStatusError:
    """Return 429: a disruption budget does not allow the eviction now. `retry_after` in seconds, 0 to omit it."""
    details: Json = {"causes": [{"reason": "DisruptionBudget", "message": cause}]}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return ApiStatusError(429, "TooManyRequests", message, details)


def success(details: Json | None = None) -> Json:
    """Return the Status of a request that succeeded and returns no object."""
    body: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return body | {"details": details} if details else body
