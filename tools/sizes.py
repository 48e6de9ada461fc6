"""Size limits of files and functions."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
LONG_FUNCTION_LINES = 50
MAX_LONG_SHARE = 0.025
WAIVER = "# size:"

Function = ast.FunctionDef | ast.AsyncFunctionDef


def main() -> int:
    """Print each violation. Return 1 if there is one, otherwise 0."""
    problems: list[str] = []
    lengths: list[int] = []
    for path in _python_files():
        source = path.read_text(encoding="utf-8")
        lines = source.splitlines()
        if len(lines) > MAX_FILE_LINES:
            problems.append(f"{path}: {len(lines)} lines, more than {MAX_FILE_LINES}")
        for function in _functions(ast.parse(source)):
            if WAIVER in lines[function.lineno - 1]:
                continue
            length = _code_lines(function, lines)
            lengths.append(length)
            if length > MAX_FUNCTION_LINES:
                where = f"{path}:{function.lineno} {function.name}"
                problems.append(f"{where}: {length} code lines, more than {MAX_FUNCTION_LINES}")
    long = sum(length > LONG_FUNCTION_LINES for length in lengths)
    if long > MAX_LONG_SHARE * len(lengths):
        problems.append(f"{long} of {len(lengths)} functions are longer than {LONG_FUNCTION_LINES} lines")
    print("\n".join(problems) if problems else f"sizes: {len(lengths)} functions, all within limits")
    return 1 if problems else 0


def _python_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        capture_output=True,
        text=True,
        check=True,
    )
    return [path for name in listed.stdout.splitlines() if (path := Path(name)).exists()]


def _functions(tree: ast.Module) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def _code_lines(function: Function, lines: list[str]) -> int:
    """Return the number of lines with code in the body, without docstring, blank lines and comments."""
    body = function.body
    if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]
    if not body:
        return 0
    span = lines[body[0].lineno - 1 : function.end_lineno]
    return sum(1 for line in span if line.strip() and not line.strip().startswith("#"))


if __name__ == "__main__":
    sys.exit(main())
