"""DeviceTaintRules."""

from __future__ import annotations

from typing import Any

from tests.devices.generator.base import GPU, NIC, Draw
from tests.devices.generator.slices import draw_taint


def draw_rules(draw: Draw) -> list[dict[str, Any]]:
    """Return rules that taint some devices, all, or none."""
    if not draw.has("rules"):
        return []
    return [
        {"metadata": {"name": f"rule-{n}"}, "spec": {"taint": draw_taint(draw), **_selector(draw)}}
        for n in range(draw.number(1, 2))
    ]


def _selector(draw: Draw) -> dict[str, Any]:
    if draw.maybe(0.1):
        return {}
    selector = {}
    if draw.maybe(0.3):
        selector["driver"] = draw.of((GPU, GPU, NIC))
    if draw.maybe(0.3):
        selector["pool"] = draw.of(("pool-0", "pool-1"))
    if draw.maybe(0.7):
        selector["device"] = draw.of(("dev-0-0", "dev-0-1", "dev-1-0"))
    return {"deviceSelector": selector}
