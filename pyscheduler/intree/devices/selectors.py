"""Selectors of devices: CEL expressions, evaluated once per expression and distinct device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pyscheduler.api.devices import DeviceAttribute, DeviceCapacity

MAX_RESULTS = 256
"""Results that are kept per distinct device; any user may create expressions."""


class ExpressionCompileError(Exception):
    """The expression is not valid CEL, or not of type bool."""


class ExpressionRuntimeError(Exception):
    """The evaluation of the expression for a device failed."""


class SelectedDevice:
    """Variable `device` of an expression, with the results of expressions for it.

    Devices that an expression cannot tell apart share one instance.
    """

    __slots__ = ("__weakref__", "allow_multiple_allocations", "attributes", "capacity", "driver", "results")

    def __init__(
        self,
        driver: str,
        allow_multiple_allocations: bool,
        attributes: Mapping[str, DeviceAttribute],
        capacity: Mapping[str, DeviceCapacity],
    ) -> None:
        self.driver = driver
        self.allow_multiple_allocations = allow_multiple_allocations
        self.attributes = attributes
        self.capacity = capacity
        self.results: dict[str, bool | tuple[type[Exception], str]] = {}


class Selectors(Protocol):
    """Evaluator of CEL expressions."""

    def matches(self, expression: str, device: SelectedDevice) -> bool:
        """Return the value of the expression. ExpressionCompileError or ExpressionRuntimeError if it has none.

        The text of a run-time error includes the hints of kube-scheduler (EnhanceRuntimeError).
        """


def matches(selectors: Selectors, expression: str, device: SelectedDevice) -> bool:
    """Return the value of the expression, which is evaluated at most once per device; the errors are kept as well."""
    result = device.results.get(expression)
    if result is None:
        if len(device.results) >= MAX_RESULTS:
            device.results.clear()
        try:
            result = selectors.matches(expression, device)
        except (ExpressionCompileError, ExpressionRuntimeError) as error:
            result = (type(error), str(error))
        device.results[expression] = result
    if isinstance(result, bool):
        return result
    kind, text = result
    raise kind(text)
