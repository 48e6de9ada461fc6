"""Variables and values with selectors behind them: `device.attributes["a"].b`, `f(x).?c[0]` (cel-go's `attributes.go`).

cel-go counts 1 for the whole attribute and 1 for each selector that it applies. The branches of a ternary and indices
that are attributes themselves are resolved without the first 1, and `has()` takes it back.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from pyscheduler.cel.frame import Code, Frame
from pyscheduler.cel.go_text import print_value
from pyscheduler.cel.values import (
    INT_MAX,
    INT_MIN,
    MISSING,
    NO_SUCH_OVERLOAD,
    NONE,
    CelError,
    CelMap,
    Missing,
    Optional,
    Uint,
    Value,
    type_of,
)

_KEYS: Final = frozenset((str, int, Uint, bool, float))
_GO_TYPES: Final = {
    "bytes": "types.Bytes",
    "null_type": "types.Null",
    "google.protobuf.Duration": "types.Duration",
    "google.protobuf.Timestamp": "types.Timestamp",
    "type": "*types.Type",
    "optional_type": "*types.Optional",
    "bool": "types.Bool",
    "double": "types.Double",
    "int": "types.Int",
    "string": "types.String",
    "uint": "types.Uint",
    "list": "*types.baseList",
    "map": "*types.baseMap",
}


def go_type(value: Value) -> str:
    """Return the name of the Go type that cel-go has for a value (`%T`)."""
    name = type_of(value).name
    return _GO_TYPES.get(name, f"cel.{name.rsplit('.', 1)[-1]}")


class Constant:
    """A node whose value is known; it costs nothing."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value


class Selector:
    """A constant key behind an attribute. With `is_test`, the presence of the key is the value."""

    __slots__ = ("is_optional", "is_test", "key")

    def __init__(self, key: Value, is_optional: bool, is_test: bool = False) -> None:
        self.key = key
        self.is_optional = is_optional
        self.is_test = is_test


class ComputedSelector:
    """A key that is computed; `resolve` adds the cost of doing so."""

    __slots__ = ("is_optional", "resolve")

    def __init__(self, resolve: Code, is_optional: bool) -> None:
        self.resolve = resolve
        self.is_optional = is_optional


AnySelector: TypeAlias = Selector | ComputedSelector


class Attribute:
    """A value with selectors: that of a variable, or of any other node.

    `is_device` is True for the device. `is_counted` is False if a variable of a comprehension hides it (`.device`):
    cel-go loses track of the cost of the selectors then.
    """

    __slots__ = ("base", "is_counted", "is_device", "is_test", "selectors")

    def __init__(self, base: Code, is_device: bool = False, is_counted: bool = True) -> None:
        self.base = base
        self.is_device = is_device
        self.is_counted = is_counted
        self.selectors: list[AnySelector] = []
        self.is_test = False

    def add(self, selector: AnySelector) -> None:
        """Append a selector."""
        self.selectors.append(selector)

    def resolver(self) -> Code:
        """Return the code that costs as much as the selectors."""
        resolve = _resolver(self.base, tuple(self.selectors))
        return resolve if self.is_counted else _without_cost(resolve)

    def code(self) -> Code:
        """Return the code of the attribute as a node of its own."""
        fast = _device_code(self) if self.is_device and not self.is_test else None
        return fast or _counted(self.resolver(), self.is_test)


class Ternary:
    """A condition with two attributes, to which selectors are added together."""

    __slots__ = ("condition", "is_test", "when_false", "when_true")

    def __init__(self, condition: Code, when_true: AnyAttribute, when_false: AnyAttribute) -> None:
        self.condition = condition
        self.when_true = when_true
        self.when_false = when_false
        self.is_test = False

    def add(self, selector: AnySelector) -> None:
        """Append a selector to both attributes."""
        self.when_true.add(selector)
        self.when_false.add(selector)

    def resolver(self) -> Code:
        """Return the code, which has no cost of its own."""
        condition = self.condition
        when_true = self.when_true.resolver()
        when_false = self.when_false.resolver()

        def resolve(frame: Frame) -> Value:
            test = condition(frame)
            if test is True:
                return when_true(frame)
            if test is False:
                return when_false(frame)
            return test if type(test) is CelError else NO_SUCH_OVERLOAD

        return resolve

    def code(self) -> Code:
        """Return the code of the ternary as a node of its own."""
        resolve = self.resolver()
        return _presence(resolve) if self.is_test else resolve


AnyAttribute: TypeAlias = Attribute | Ternary


def _without_cost(resolve: Code) -> Code:
    def code(frame: Frame) -> Value:
        cost = frame.cost
        value = resolve(frame)
        frame.cost = cost
        return value

    return code


def _presence(resolve: Code) -> Code:
    """Return the code of `has()`: of an optional value, the presence."""

    def code(frame: Frame) -> Value:
        value = resolve(frame)
        return value is not NONE if type(value) is Optional else value

    return code


def _counted(resolve: Code, is_test: bool) -> Code:
    if is_test:
        return _presence(resolve)

    def code(frame: Frame) -> Value:
        value = resolve(frame)
        frame.cost += 1
        return value

    return code


def _device_code(attribute: Attribute) -> Code | None:
    """Return fast code of `device.attributes[domain].name` and `device.capacity[domain].name`, or None."""
    keys = [selector.key for selector in attribute.selectors if isinstance(selector, Selector) and not selector.is_optional]
    if len(keys) != len(attribute.selectors) or len(keys) != 3 or keys[0] not in ("attributes", "capacity"):
        return None
    if not all(type(key) is str for key in keys):
        return None
    field, domain, name = keys
    missing = CelError(f"no such key: {name}")

    def code(frame: Frame) -> Value:
        frame.cost += 4
        names = frame.device.entries[field].entries.get(domain)  # type: ignore[attr-defined]
        return missing if names is None else names.entries.get(name, missing)

    return code


def _resolver(base: Code, selectors: tuple[AnySelector, ...]) -> Code:
    if not selectors:
        return base
    if all(isinstance(selector, Selector) and not (selector.is_optional or selector.is_test) for selector in selectors):
        return _plain_resolver(base, tuple(selector.key for selector in selectors if isinstance(selector, Selector)))

    def resolve(frame: Frame) -> Value:
        value = base(frame)
        if type(value) is CelError:
            return value
        is_optional = type(value) is Optional
        if is_optional:
            if value is NONE:
                return NONE
            value = value.value  # type: ignore[attr-defined]
        for selector in selectors:
            is_optional = is_optional or selector.is_optional
            value = _present(frame, value, selector) if is_optional else _select(frame, value, selector)
            if type(value) is CelError:
                return value
            if value is MISSING:
                return NONE
        return Optional(value) if is_optional else value

    return resolve


def _plain_resolver(base: Code, keys: tuple[Value, ...]) -> Code:
    """Return the code for constant keys without optional ones."""

    def resolve(frame: Frame) -> Value:
        value = base(frame)
        if type(value) is CelError:
            return value
        is_optional = type(value) is Optional
        if is_optional:
            if value is NONE:
                return NONE
            value = value.value  # type: ignore[attr-defined]
        for key in keys:
            found = find(value, key)
            if is_optional and found is MISSING:
                return NONE
            frame.cost += 1
            if found is MISSING:
                return _missing(value, key)
            if type(found) is CelError:
                if is_optional:
                    frame.cost -= 1
                return found
            value = found
        return Optional(value) if is_optional else value

    return resolve


def _select(frame: Frame, value: Value, selector: AnySelector) -> Value:
    """Return the value behind a selector; the cost is 1 also for an error."""
    key = selector.key if isinstance(selector, Selector) else selector.resolve(frame)
    frame.cost += 1
    if type(key) is CelError:
        return key
    found = find(value, key)
    if isinstance(selector, Selector) and selector.is_test:
        return found if type(found) is CelError else found is not MISSING
    return _missing(value, key) if found is MISSING else found


def _present(frame: Frame, value: Value, selector: AnySelector) -> Value | Missing:
    """Return the value behind a selector, or MISSING; the cost is 1 if there is one."""
    key = selector.key if isinstance(selector, Selector) else selector.resolve(frame)
    if type(key) is CelError:
        return key
    found = find(value, key)
    if found is not MISSING and type(found) is not CelError:
        frame.cost += 1
    return found


def find(value: Value, key: Value) -> Value | Missing:
    """Return the entry of a map or the element of a list, MISSING, or an error for a key that no value can have."""
    if isinstance(value, CelMap):
        if type(key) not in _KEYS:
            return CelError(f"invalid qualifier type: {go_type(key)}")
        return value.find(key)
    if type(key) not in _KEYS:
        return CelError(f"invalid qualifier type: {go_type(key)}")
    if type(value) is not tuple:
        return MISSING
    index = key
    if type(index) is float and index.is_integer() and INT_MIN < index < -float(INT_MIN):
        index = int(index)
    if type(index) is float or (type(index) is Uint and index > INT_MAX):
        return CelError(f"unsupported index value {print_value(key)} in list")
    if not isinstance(index, int) or isinstance(index, bool):
        return CelError(f"unsupported index type '{type_of(key)}' in list")
    return value[index] if 0 <= index < len(value) else MISSING


def _missing(value: Value, key: Value) -> CelError:
    what = "index out of bounds" if type(value) is tuple else "no such key"
    return CelError(f"{what}: {print_value(key)}")
