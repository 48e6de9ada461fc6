"""Evaluator of the few CEL expressions that the generated documents have.

Comparisons joined by `&&`; errors are absorbed by a false operand, and the texts are cel-go's.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pyscheduler.api.devices import DeviceAttribute
from pyscheduler.intree.devices.quantity import parse
from pyscheduler.intree.devices.selectors import ExpressionCompileError, ExpressionRuntimeError, SelectedDevice

NOT_BOOL = "must evaluate to bool or the unknown type, not int"
HINT = (
    "consider using CEL optional chaining (.? followed by orValue())"
    " or guarding the check with has() for optional fields"
)
_DRIVER = re.compile(r'device\.driver == "(.*)"\Z')
_SHARED = re.compile(r"device\.allowMultipleAllocations\Z")
_ATTRIBUTE = re.compile(r'device\.attributes\["(.*?)"\]\.(\w+) (==|!=) (.*)\Z')
_HAS = re.compile(r'has\(device\.attributes\["(.*?)"\]\.(\w+)\)\Z')
_CAPACITY = re.compile(r'device\.capacity\["(.*?)"\]\.(\w+)\.compareTo\(quantity\("(.*?)"\)\) >= 0\Z')

Value = tuple[type, object]


class GeneratedExpressions:
    """Selectors for the expressions of the generator."""

    def __init__(self) -> None:
        self.evaluations = 0

    def matches(self, expression: str, device: SelectedDevice) -> bool:
        """Return the value of the expression."""
        self.evaluations += 1
        if expression == "1":
            raise ExpressionCompileError(NOT_BOOL)
        for name, attribute in device.attributes.items():
            if attribute == DeviceAttribute():  # conversion of the device fails, whatever the expression reads
                raise ExpressionRuntimeError(f"attribute {name}: unsupported attribute value")
        error: ExpressionRuntimeError | None = None
        for part in expression.split(" && "):
            try:
                if not _evaluate(part, device):
                    return False
            except ExpressionRuntimeError as raised:
                error = error or raised
        if error:
            raise error
        return True


def _evaluate(part: str, device: SelectedDevice) -> bool:
    for pattern, evaluate in _FORMS:
        if match := pattern.match(part):
            return evaluate(match, device)
    raise AssertionError(f"the generator has no expression {part!r}")


def _compare(match: re.Match[str], device: SelectedDevice) -> bool:
    attributes = {_qualified(name, device.driver): value for name, value in device.attributes.items()}
    if (match[1], match[2]) not in attributes:
        raise ExpressionRuntimeError(f"no such key: {match[2]}. {HINT}")
    is_equal = _typed(attributes[match[1], match[2]]) == _literal(match[4])
    return is_equal == (match[3] == "==")


def _has(match: re.Match[str], device: SelectedDevice) -> bool:
    return (match[1], match[2]) in {_qualified(name, device.driver) for name in device.attributes}


def _has_capacity(match: re.Match[str], device: SelectedDevice) -> bool:
    capacities = {_qualified(name, device.driver): value for name, value in device.capacity.items()}
    if (match[1], match[2]) not in capacities:
        raise ExpressionRuntimeError(f"no such key: {match[2]}. {HINT}")
    return parse(capacities[match[1], match[2]].value).nano >= parse(match[3]).nano


def _qualified(name: str, driver: str) -> tuple[str, str]:
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def _typed(attribute: DeviceAttribute) -> Value:
    if attribute.string_value is not None:
        return str, attribute.string_value
    if attribute.int_value is not None:
        return int, attribute.int_value
    if attribute.bool_value is not None:
        return bool, attribute.bool_value
    return object, attribute.version_value


def _literal(text: str) -> Value:
    if text in ("true", "false"):
        return bool, text == "true"
    return (str, text[1:-1]) if text.startswith('"') else (int, int(text))


_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], SelectedDevice], bool]], ...] = (
    (_DRIVER, lambda match, device: device.driver == match[1]),
    (_SHARED, lambda _, device: device.allow_multiple_allocations),
    (_ATTRIBUTE, _compare),
    (_HAS, _has),
    (_CAPACITY, _has_capacity),
)
