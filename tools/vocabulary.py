"""Check of names and prose against the Kubernetes vocabulary (docs/glossary.md).

Python files, by package: people-words per 1,000 lines, first words of docstrings, names of classes, functions and
modules. Markdown pages: people-words. Commit subjects since this file was added: at most 72 characters. `--list` prints
all findings, also those of packages within the limits.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

MAX_PEOPLE_WORDS: Final = 3.0
"""Per 1,000 lines of a package."""
MAX_RIDDLES: Final = 0.03
"""Share of the docstrings of a package."""
MAX_SUBJECT: Final = 72
SMALLEST: Final = 300
"""Minimum number of lines by which a package's words are divided, so that one word in a small file is no violation."""
WORDS: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_PEOPLE: Final = re.compile(rf"\b({'|'.join(WORDS['people'])})\b", re.IGNORECASE)
_RIDDLE: Final = re.compile(rf"({'|'.join(WORDS['riddles'])})\b")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_+")
_PRODUCT: Final = ("pyscheduler", "plugins/pyscheduler_plugins")
_DENIED: Final = frozenset(WORDS["denied"])


@dataclass
class Package:
    """Counts of one package."""

    lines: int = 0
    words: list[str] = field(default_factory=list)
    """Findings as `path:line: text`."""
    docstrings: int = 0
    riddles: list[str] = field(default_factory=list)
    denied: list[str] = field(default_factory=list)

    @property
    def people_words(self) -> float:
        """People-words per 1,000 lines."""
        return 1000 * len(self.words) / max(self.lines, SMALLEST)

    @property
    def riddle_share(self) -> float:
        """Share of docstrings that begin as riddles."""
        return len(self.riddles) / max(self.docstrings, 1)


def package_of(path: Path) -> str:
    """Return the package that a file belongs to: `pyscheduler/core`, `tests/unit`, `docs`."""
    depth = 2 if path.parts[0] in ("pyscheduler", "tests", "plugins") and len(path.parts) > 2 else 1
    return "/".join(path.parts[:depth]) if len(path.parts) > 1 else "top level"


def read_text(package: Package, path: Path, text: str) -> None:
    """Count the lines and the people-words of a file, those within identifiers included."""
    for number, line in enumerate(text.splitlines(), 1):
        package.lines += 1
        found = _PEOPLE.findall(_HUMP.sub(" ", line))
        package.words += [f"{path}:{number}: {word}: {line.strip()}" for word in found]


def read_code(package: Package, path: Path, tree: ast.Module) -> None:
    """Count the docstrings of a module, also those of attributes, and the names that it defines."""
    if path.stem in _DENIED:
        package.denied.append(f"{path}: module {path.stem}")
    for node in ast.walk(tree):
        for text in _docstrings(node):
            package.docstrings += 1
            if _RIDDLE.match(text):
                package.riddles.append(f"{path}:{getattr(node, 'lineno', 1)}: {text.splitlines()[0]}")
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name.strip("_") in _DENIED:
            package.denied.append(f"{path}:{node.lineno}: {node.name}")


def _docstrings(node: ast.AST) -> Iterator[str]:
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return
    for before, statement in zip([None, *node.body], node.body, strict=False):
        is_first = before is None or isinstance(before, ast.Assign | ast.AnnAssign)
        if is_first and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            text = statement.value.value
            if isinstance(text, str):
                yield text.strip()


def ambiguous_classes(trees: dict[Path, ast.Module]) -> list[str]:
    """Return the public class names that are defined more than once in the package and our plugins."""
    where: dict[str, list[str]] = defaultdict(list)
    for path, tree in trees.items():
        # Kubernetes' own types have the API's names.
        if path == Path("pyscheduler/api/objects.py") or not any(path.is_relative_to(p) for p in _PRODUCT):
            continue
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where[node.name].append(f"{path}:{node.lineno}")
    return [f"{name}: {', '.join(places)}" for name, places in sorted(where.items()) if len(places) > 1]


def missing_words(texts: dict[Path, str]) -> list[str]:
    """Return the expected words that do not occur in the core or the shell."""
    together = " ".join(
        t for p, t in texts.items() if p.parts[:2] in (("pyscheduler", "core"), ("pyscheduler", "shell"))
    )
    spaced = _HUMP.sub(" ", together).lower()
    return [word for word in WORDS["expected"] if word not in spaced]


def long_subjects() -> list[str]:
    """Return the commit subjects above the limit since this check was introduced."""
    added = _git("log", "--diff-filter=A", "--format=%H", "--", str(Path(__file__).relative_to(Path.cwd()))).split()
    subjects = _git("log", "--no-merges", "--format=%s", f"{added[-1]}..HEAD").splitlines() if added else []
    return [subject for subject in subjects if len(subject) > MAX_SUBJECT]


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout


def main() -> int:
    """Print a table of the packages and each finding that breaks a rule; exit code 1 if there is one."""
    parser = argparse.ArgumentParser(description="Check names, docstrings and prose against the Kubernetes vocabulary.")
    parser.add_argument("--list", action="store_true", help="print all findings, also of packages within the limits")
    everything: bool = parser.parse_args().list
    packages: dict[str, Package] = defaultdict(Package)
    texts: dict[Path, str] = {}
    trees: dict[Path, ast.Module] = {}
    for name in _git("ls-files", "--cached", "--others", "--exclude-standard", "*.py", "*.md").splitlines():
        path = Path(name)
        if not path.exists():
            continue
        text = texts[path] = path.read_text(encoding="utf-8")
        package = packages[package_of(path)]
        read_text(package, path, text)
        if path.suffix == ".py":
            tree = trees[path] = ast.parse(text)
            read_code(package, path, tree)
    problems: list[str] = []
    for name, package in sorted(packages.items()):
        counts = f"{package.people_words:5.1f} people-words {package.riddle_share:6.1%} riddles"
        print(f"{name:28} {package.lines:7,} lines {counts}")
        if everything or package.people_words > MAX_PEOPLE_WORDS:
            print(*package.words, sep="\n")
        if everything or package.riddle_share > MAX_RIDDLES:
            print(*package.riddles, sep="\n")
        if package.people_words > MAX_PEOPLE_WORDS:
            problems.append(
                f"{name}: {package.people_words:.1f} people-words per 1,000 lines, more than {MAX_PEOPLE_WORDS}"
            )
        if package.riddle_share > MAX_RIDDLES:
            problems.append(
                f"{name}: {package.riddle_share:.1%} of docstrings begin as riddles, more than {MAX_RIDDLES:.0%}"
            )
        problems += [f"{found} is on the list of denied names" for found in package.denied]
    problems += [f"class name is defined twice: {found}" for found in ambiguous_classes(trees)]
    problems += [f"not found in core or shell: {word}" for word in missing_words(texts)]
    problems += [f"commit subject exceeds {MAX_SUBJECT} characters: {subject}" for subject in long_subjects()]
    print("\n".join(problems) if problems else "vocabulary: all packages within limits")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
