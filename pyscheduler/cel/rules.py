"""Compiled rules over JSON values: `self` and `oldSelf` in x-kubernetes-validations of custom resources.

Both variables have the type dyn: a field that the schema lacks is an error of the evaluation, not of the compilation.
"""

from __future__ import annotations

from typing import Final

from pyscheduler.cel import limits
from pyscheduler.cel.checker import Declarations
from pyscheduler.cel.environment import DECLARATIONS
from pyscheduler.cel.frame import Code, Frame
from pyscheduler.cel.functions.costs import InternalError
from pyscheduler.cel.parser import depth_of
from pyscheduler.cel.planner import Planner
from pyscheduler.cel.program import CANCELLED, COST_LIMIT, DEEP, checked_tree
from pyscheduler.cel.source import CelSyntaxError
from pyscheduler.cel.syntax import Ident, children
from pyscheduler.cel.types import BOOL, DYN, STRING, CelType
from pyscheduler.cel.values import CelError, CelMap, Value

SELF: Final = "self"
OLD_SELF: Final = "oldSelf"
_DEVICE: Final = "kubernetes.DRADevice"
_DECLARATIONS: Final = Declarations(
    variables={SELF: DYN, OLD_SELF: DYN},
    fields={},
    types={name: kind for name, kind in DECLARATIONS.types.items() if name != _DEVICE},
    functions=DECLARATIONS.functions,
)


class Rule:
    """A compiled expression; `uses_old_self` is True for a transition rule."""

    __slots__ = ("_code", "_is_deep", "_variables", "expression", "uses_old_self")

    def __init__(self, expression: str, code: Code, variables: int, is_deep: bool, uses_old_self: bool) -> None:
        self.expression, self.uses_old_self = expression, uses_old_self
        self._code, self._variables, self._is_deep = code, variables, is_deep

    def evaluate(self, value: Value, old: Value = None) -> Value:
        """Return the value of the expression, a CelError if it fails or exceeds its cost limit."""
        limits.start()
        frame = Frame(CelMap({SELF: value, OLD_SELF: old}), self._variables, COST_LIMIT)
        try:
            if self._is_deep:
                with limits.deep_stack():
                    result = self._code(frame)
            else:
                result = self._code(frame)
        except limits.CancelledError:
            return CANCELLED
        except InternalError as error:
            return CelError(str(error))
        except RecursionError:
            return CelError("expression recursion limit exceeded")
        return CANCELLED if frame.cost > COST_LIMIT else result


def compile_rule(expression: str, result: CelType = BOOL) -> Rule:
    """Return the compiled rule, or message expression with the result STRING. CelSyntaxError if it is invalid."""
    limits.start()
    try:
        with limits.deep_stack():
            return _compile(expression, result)
    except RecursionError:
        raise CelSyntaxError("compilation failed: expression recursion limit exceeded") from None


def _compile(expression: str, wanted: CelType) -> Rule:
    tree, result = checked_tree(expression, _DECLARATIONS)
    if result != wanted and result.kind != "dyn":
        raise CelSyntaxError(f"cel expression must evaluate to a {'string' if wanted == STRING else 'bool'}")
    uses_old_self, pending = False, [tree]
    while pending:
        node = pending.pop()
        uses_old_self = uses_old_self or (isinstance(node, Ident) and node.name.removeprefix(".") == OLD_SELF)
        pending += children(node)
    variables = {name: _variable(name) for name in (SELF, OLD_SELF)}
    planner = Planner(_DECLARATIONS.functions, variables)
    return Rule(expression, planner.code(tree), planner.variables, depth_of(tree) > DEEP, uses_old_self)


def _variable(name: str) -> Code:
    return lambda frame: frame.device.entries[name]
