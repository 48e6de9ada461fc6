"""Selectors of devices in CEL (temporary: no expressions)."""

from __future__ import annotations

from pyscheduler.intree.devices.selectors import SelectedDevice


class CelSelectors:
    """Evaluates expressions."""

    def matches(self, expression: str, device: SelectedDevice) -> bool:
        """Return the value."""
        return expression == "true" or expression == f'device.driver == "{device.driver}"'
