"""The device of these tests."""

from __future__ import annotations

from pyscheduler.cel import CelError, SelectorDevice, compile_selector
from pyscheduler.cel.functions.semver import parse_semver
from pyscheduler.cel.quantity import parse_quantity

DEVICE = SelectorDevice(
    "gpu.example.com",
    attributes={
        "model": "a100",
        "count": 5,
        "healthy": True,
        "version": parse_semver("1.2.3"),
        "links": ("a", "b"),
        "other.example.com/model": "h100",
    },
    capacity={"memory": parse_quantity("40Gi")},
)


def evaluate(expression: str) -> bool | str:
    """Return the result of a selector, or the text of its error."""
    result = compile_selector(expression).evaluate(DEVICE)
    return result.message if isinstance(result, CelError) else result


def cost(expression: str) -> int:
    """Return the cost of a selector."""
    return compile_selector(expression).run(DEVICE)[1]
