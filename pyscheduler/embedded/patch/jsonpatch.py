"""JSON patch (RFC 6902): a list of operations at JSON pointers, applied all or none."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from pyscheduler.embedded.status import ApiError, bad_request
from pyscheduler.kube.numbers import natural


def json_patch(target: Any, operations: Any) -> Any:
    """Return `target` with all `operations` applied. ApiError 400 for a malformed patch, 422 if an operation fails."""
    if not isinstance(operations, list):
        raise bad_request("a JSON patch must be a list of operations")
    document = deepcopy(target)
    for operation in operations:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise bad_request("a JSON patch operation must have an op and a path")
        document = _apply(document, operation)
    return document


def _apply(document: Any, operation: dict[str, Any]) -> Any:
    op, path = operation.get("op"), operation["path"]
    if op in {"add", "replace", "test"} and "value" not in operation:
        raise bad_request(f"JSON patch operation {op!r} has no value")
    match op:
        case "add":
            return _add(document, path, deepcopy(operation["value"]))
        case "remove":
            return _remove(document, path)
        case "replace":
            _get(document, path)
            return _add(_remove(document, path), path, deepcopy(operation["value"]))
        case "test":
            if _get(document, path) != operation["value"]:
                raise _not_applicable(path, "testing value failed")
            return document
        case "move" | "copy":
            source = operation.get("from")
            if not isinstance(source, str):
                raise bad_request(f"JSON patch operation {op!r} has no from")
            value = deepcopy(_get(document, source))
            return _add(_remove(document, source) if op == "move" else document, path, value)
    raise bad_request(f"{op!r} is not a JSON patch operation")


def _steps(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise bad_request(f"JSON pointer {path!r} does not start with /")
    return [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]]


def _index(items: list[Any], step: str, path: str, *, end: bool = False) -> int:
    if end and step == "-":
        return len(items)
    index = natural(step)
    if index is None or index >= len(items) + end:
        raise _not_applicable(path, "there is no such item")
    return index


def _get(document: Any, path: str) -> Any:
    for step in _steps(path):
        if isinstance(document, list):
            document = document[_index(document, step, path)]
        elif isinstance(document, dict) and step in document:
            document = document[step]
        else:
            raise _not_applicable(path, "there is no such member")
    return document


def _parent(document: Any, path: str) -> tuple[Any, str]:
    head, _, _ = path.rpartition("/")
    return _get(document, head), _steps(path)[-1]


def _add(document: Any, path: str, value: Any) -> Any:
    if not path:
        return value
    parent, step = _parent(document, path)
    if isinstance(parent, list):
        parent.insert(_index(parent, step, path, end=True), value)
    elif isinstance(parent, dict):
        parent[step] = value
    else:
        raise _not_applicable(path, "its parent is neither object nor list")
    return document


def _remove(document: Any, path: str) -> Any:
    _get(document, path)
    if not path:
        return None
    parent, step = _parent(document, path)
    del parent[_index(parent, step, path) if isinstance(parent, list) else step]
    return document


def _not_applicable(path: str, why: str) -> ApiError:
    return ApiError(422, "Invalid", f"the JSON patch cannot be applied at {path or '/'}: {why}")
