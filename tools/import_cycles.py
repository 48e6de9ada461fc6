"""Import cycles between the files of a package; imports for type checking count too."""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PACKAGES = (Path("pyscheduler"), Path("plugins/pyscheduler_plugins"))


def main() -> int:
    """Print one cycle of each package. Return 1 if there is one, otherwise 0."""
    cycles = [cycle for package in PACKAGES if (cycle := find_cycle(imports_of(package)))]
    for cycle in cycles:
        print(f"import cycle: {' -> '.join(cycle)}")
    if not cycles:
        print("import cycles: none between files")
    return 1 if cycles else 0


def imports_of(package: Path) -> dict[str, set[str]]:
    """Return the modules of the package, each with those of the package that its file imports."""
    files = {_module(path, package): path for path in package.rglob("*.py")}
    return {
        module: _imported(ast.parse(path.read_text(encoding="utf-8")), files.keys()) - {module}
        for module, path in files.items()
    }


def find_cycle(imports: Mapping[str, set[str]]) -> list[str]:
    """Return the modules of one cycle, the first again at the end; an empty list if there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def _module(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(tree: ast.Module, files: Collection[str]) -> set[str]:
    """Return the imported files. `from a import b` imports the file a.b if there is one, else a name of the file a."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            parts = (f"{node.module}.{alias.name}" for alias in node.names)
            names.update(part if part in files else node.module for part in parts)
    return names.intersection(files)


if __name__ == "__main__":
    sys.exit(main())
