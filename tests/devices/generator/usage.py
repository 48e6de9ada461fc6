"""Devices in use by other claims."""

from __future__ import annotations

from typing import Any

from tests.devices.generator.base import Draw


def draw_usage(draw: Draw, slices: list[dict[str, Any]]) -> dict[str, Any]:
    """Return devices that are allocated, shares of devices, and their capacity in use."""
    usage: dict[str, Any] = {"devices": [], "shared": [], "capacity": []}
    if not draw.has("usage"):
        return usage
    for slice_ in slices:
        spec = slice_["spec"]
        for device in spec.get("devices", ()):
            if not draw.maybe(0.3):
                continue
            key = [spec["driver"], spec["pool"]["name"], device["name"]]
            if not device.get("allowMultipleAllocations") or draw.maybe(0.05):
                usage["devices"].append(key)
                continue
            usage["shared"].append([*key, f"share-{len(usage['shared'])}"])
            if device.get("capacity") and draw.maybe(0.8):
                consumed = {name: draw.of(("1", "500m", "2")) for name in device["capacity"]}
                usage["capacity"].append({"device": key, "consumed": consumed})
    return usage
