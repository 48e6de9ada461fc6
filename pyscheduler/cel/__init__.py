"""Evaluator of CEL for device selectors, exact to cel-go as Kubernetes 1.37 configures it.

`compile_selector(expression)` parses, checks and plans an expression once; `Program.evaluate(device)` runs it.
"""

from pyscheduler.cel.program import COST_LIMIT, Program, SelectorDevice, compile_selector
from pyscheduler.cel.source import CelSyntaxError
from pyscheduler.cel.values import CelError

__all__ = ["COST_LIMIT", "CelError", "CelSyntaxError", "Program", "SelectorDevice", "compile_selector"]
