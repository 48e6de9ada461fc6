"""A case of the comparison: an expression and a device."""

from __future__ import annotations

from typing import Any

import msgspec


class Case(msgspec.Struct, frozen=True):
    """An expression and the device, in the form of a ResourceSlice, that it is evaluated for."""

    expression: str
    device: dict[str, Any]
