"""Compiled expressions of device selectors, and their values for devices, with the errors of kube-scheduler.

`cel_selectors.py` imports this module with the first expression.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final
from weakref import WeakKeyDictionary

from pyscheduler.api.devices import DeviceAttribute
from pyscheduler.cel import CelError, CelSyntaxError, Program, SelectorDevice, compile_selector, limits
from pyscheduler.cel.functions.semver import parse_semver
from pyscheduler.cel.quantity import parse_quantity
from pyscheduler.cel.values import Value
from pyscheduler.intree.devices.errors import AllocationTimeoutError
from pyscheduler.intree.devices.selectors import ExpressionCompileError, ExpressionRuntimeError, SelectedDevice

MAX_PROGRAMS: Final = 1024
"""Number of compiled expressions that are kept; any user may create expressions."""
MAX_CHARACTERS: Final = 1 << 18
"""Characters of the expressions that are kept compiled, in up to 150 bytes each."""
MAX_COST: Final = 2_000_000
"""Cost of one attempt: that of all evaluations in cel-go's units, and steps that it does not count; two seconds."""
_CALL_COST: Final = 10
"""Cost of an evaluation in addition."""
_CHARACTER_COST: Final = 10
"""Cost of compiling a character of an expression."""
_HINT: Final = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() "
    "for optional fields"
)


class CelPrograms:
    """Evaluates expressions for devices, with the programs that were used last."""

    def __init__(self) -> None:
        self._programs: OrderedDict[str, Program | str] = OrderedDict()
        """Compiled expressions, or why one cannot be compiled."""
        self._characters = 0
        """Characters of these expressions."""
        self._cost = 0
        self._devices: WeakKeyDictionary[SelectedDevice, SelectorDevice] = WeakKeyDictionary()

    def start(self) -> None:
        """Begin an attempt, which may evaluate expressions up to `MAX_COST`."""
        self._cost = 0

    def matches(self, expression: str, device: SelectedDevice) -> bool:
        """Return the value of the expression. ExpressionCompileError or ExpressionRuntimeError if it has none.

        AllocationTimeoutError if the attempt costs too much. Results are kept, so a later attempt gets further.
        """
        if self._cost > MAX_COST:
            raise AllocationTimeoutError
        result, cost = self._program(expression).match(self._device(device))
        self._cost += cost + limits.spent() + _CALL_COST
        if isinstance(result, CelError):
            raise ExpressionRuntimeError(with_hint(result.message))
        return result

    def _program(self, expression: str) -> Program:
        found = self._programs.get(expression)
        if found is None:
            try:
                found = compile_selector(expression)
            except CelSyntaxError as error:
                found = str(error)
            self._cost += _CHARACTER_COST * len(expression)
            self._programs[expression] = found
            self._characters += len(expression)
            while len(self._programs) > MAX_PROGRAMS or self._characters > MAX_CHARACTERS:
                self._characters -= len(self._programs.popitem(last=False)[0])
        else:
            self._programs.move_to_end(expression)
        if isinstance(found, str):
            raise ExpressionCompileError(found)
        return found

    def _device(self, device: SelectedDevice) -> SelectorDevice:
        found = self._devices.get(device)
        if found is None:
            attributes = {name: _value(name, each) for name, each in device.attributes.items()}
            capacity = {name: parse_quantity(str(each.value)) for name, each in device.capacity.items()}
            found = SelectorDevice(device.driver, attributes, capacity, device.allow_multiple_allocations)
            self._devices[device] = found
        return found


def with_hint(message: str) -> str:
    """Return the text of a run-time error, for a missing key with kube-scheduler's hint (EnhanceRuntimeError)."""
    return message + _HINT if "no such key:" in message else message


def _value(name: str, attribute: DeviceAttribute) -> Value:
    """Return the attribute as a value of CEL. ExpressionRuntimeError for a type of a later API version."""
    if attribute.version_value is not None:
        return parse_semver(attribute.version_value)
    if attribute.int_value is not None:
        return attribute.int_value
    if attribute.bool_value is not None:
        return attribute.bool_value
    if attribute.string_value is None:
        raise ExpressionRuntimeError(f"attribute {name}: unsupported attribute value")
    return attribute.string_value
