"""What Kubernetes says of a wrong field, without the path (apimachinery's field.Error).

In its own words, so that whoever knows kube-scheduler's messages, or searches for them, finds the answers known.
"""

from __future__ import annotations

import json

REQUIRED = "Required value"


def invalid(value: object, detail: str) -> str:
    """`Invalid value: 0: must be …`; texts are quoted, anything else is shown as JSON."""
    return f"Invalid value: {_json(value)}: {detail}"


def duplicate(value: object) -> str:
    """`Duplicate value: "x"`."""
    return f"Duplicate value: {_json(value)}"


def required(hint: str) -> str:
    """`Required value: …`."""
    return f"{REQUIRED}: {hint}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
