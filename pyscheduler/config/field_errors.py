"""Error texts of Kubernetes for invalid fields, without the path (apimachinery's field.Error).

They match kube-scheduler's messages, so that searches find the documented explanations.
"""

from __future__ import annotations

import json

REQUIRED = "Required value"


def invalid(value: object, detail: str) -> str:
    """Return `Invalid value: 0: must be …`; the value is shown as JSON."""
    return f"Invalid value: {_json(value)}: {detail}"


def duplicate(value: object) -> str:
    """Return `Duplicate value: "x"`."""
    return f"Duplicate value: {_json(value)}"


def required(hint: str) -> str:
    """Return `Required value: …`."""
    return f"{REQUIRED}: {hint}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
