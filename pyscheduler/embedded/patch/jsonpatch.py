"""JSON patch (RFC 6902) by the library jsonpatch, with the status codes of the API server."""

from __future__ import annotations

from typing import Any

from jsonpatch import InvalidJsonPatch, JsonPatch, JsonPatchException
from jsonpointer import JsonPointerException

from pyscheduler.embedded.status import ApiStatusError, bad_request


def json_patch(target: Any, operations: Any) -> Any:
    """Return a copy of `target` with all operations applied.

    ApiStatusError 400 for a malformed patch, 422 where an operation does not apply to the document.
    """
    if not isinstance(operations, list):
        raise bad_request("a JSON patch is a list of operations")
    try:
        patch = JsonPatch(operations)
    except (JsonPatchException, JsonPointerException, TypeError) as problem:
        raise bad_request(f"invalid JSON patch: {problem}") from None
    try:
        return patch.apply(target)
    except InvalidJsonPatch as problem:  # what the library checks only when it comes to the operation
        raise bad_request(f"invalid JSON patch: {problem}") from None
    except (JsonPatchException, JsonPointerException, TypeError) as problem:
        raise ApiStatusError(422, "Invalid", f"the JSON patch cannot be applied: {problem}") from None
