"""Compiled device selectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyscheduler.cel import limits
from pyscheduler.cel.checker import Declarations, check
from pyscheduler.cel.environment import DECLARATIONS
from pyscheduler.cel.frame import Code, Frame
from pyscheduler.cel.functions.costs import InternalError
from pyscheduler.cel.parser import depth_of, parse
from pyscheduler.cel.planner import Planner
from pyscheduler.cel.results import to_match
from pyscheduler.cel.source import CelSyntaxError, Issues
from pyscheduler.cel.syntax import Expr
from pyscheduler.cel.types import BOOL, CelType
from pyscheduler.cel.validators import validate
from pyscheduler.cel.values import CelError, CelMap, DefaultMap, Value

COST_LIMIT: Final = 1_000_000
"""Cost limit of one evaluation (`CELSelectorExpressionMaxCost` of resource.k8s.io)."""
DEEP: Final = 50
"""Levels of a tree above which the code may need more nested calls than Python's default allows."""
CANCELLED: Final = CelError("operation cancelled: actual cost limit exceeded")


class SelectorDevice:
    """A device as selectors see it. Build it once: evaluation only reads it."""

    __slots__ = ("value",)

    def __init__(
        self,
        driver: str,
        attributes: Mapping[str, Value],
        capacity: Mapping[str, Value],
        allow_multiple_allocations: bool = False,
    ) -> None:
        """Take values of CEL by qualified name `domain/id`; a name without a domain belongs to that of the driver."""
        self.value = CelMap(
            {
                "driver": driver,
                "allowMultipleAllocations": allow_multiple_allocations,
                "attributes": _by_domain(attributes, driver),
                "capacity": _by_domain(capacity, driver),
            }
        )


def _by_domain(values: Mapping[str, Value], driver: str) -> DefaultMap:
    domains: dict[str, dict[object, Value]] = {}
    for name, value in values.items():
        domain, separator, identifier = name.partition("/")
        if not separator:
            domain, identifier = driver, name
        domains.setdefault(domain, {})[identifier] = value
    return DefaultMap({domain: CelMap(entries) for domain, entries in domains.items()})


class Program:
    """A compiled selector."""

    __slots__ = ("_code", "_is_deep", "_variables", "expression")

    def __init__(self, expression: str, code: Code, variables: int, is_deep: bool) -> None:
        self.expression = expression
        self._code = code
        self._variables = variables
        self._is_deep = is_deep

    def run(self, device: SelectorDevice, limit: int = COST_LIMIT) -> tuple[Value, int]:
        """Return the value, which may be a CelError, and the cost in cel-go's units."""
        limits.start()
        frame = Frame(device.value, self._variables, limit)
        try:
            if self._is_deep:
                with limits.deep_stack():
                    value = self._code(frame)
            else:
                value = self._code(frame)
        except limits.CancelledError:
            return CANCELLED, frame.cost
        except InternalError as error:
            return CelError(str(error)), frame.cost
        except RecursionError:
            return CelError("expression recursion limit exceeded"), frame.cost
        return (CANCELLED if frame.cost > limit else value), frame.cost

    def evaluate(self, device: SelectorDevice) -> bool | CelError:
        """Return True if the device matches, or an error with upstream's message."""
        return self.match(device)[0]

    def match(self, device: SelectorDevice) -> tuple[bool | CelError, int]:
        """Return the result of `evaluate`, and its cost in cel-go's units."""
        value, cost = self.run(device)
        return (value if value is True or value is False else to_match(value)), cost


def compile_selector(expression: str) -> Program:
    """Return the program of a selector, which evaluates to a bool or to an attribute of any type.

    Raise CelSyntaxError with the text that follows `CEL compile error: ` in kube-scheduler's messages.
    """
    limits.start()
    try:
        with limits.deep_stack():
            return _compile(expression)
    except RecursionError:
        raise CelSyntaxError("compilation failed: expression recursion limit exceeded") from None


def _compile(expression: str) -> Program:
    tree, result = checked_tree(expression, DECLARATIONS)
    if result != BOOL and result.kind != "dyn":
        raise CelSyntaxError(f"must evaluate to bool or the unknown type, not {result}")
    planner = Planner(DECLARATIONS.functions)
    return Program(expression, planner.code(tree), planner.variables, is_deep=depth_of(tree) > DEEP)


def checked_tree(expression: str, declarations: Declarations) -> tuple[Expr, CelType]:
    """Return the syntax tree of an expression that passes all checks, and its type. CelSyntaxError if it does not."""
    issues = Issues(expression)
    tree = parse(expression, issues)
    if tree is None:
        raise CelSyntaxError(f"compilation failed: {issues}")
    inference = check(tree, declarations, issues)
    if not issues:
        validate(tree, inference, issues)
    if issues:
        raise CelSyntaxError(f"compilation failed: {issues}")
    return tree, inference.substitute(tree.type, unbound_to_dyn=True)
