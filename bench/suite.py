"""Workload files: loading, validation, and selection by name and label. Errors have their place in the file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

from bench.opcodes import Json, Op, TestCase, Workload

BENCH = Path(__file__).parent
WORKLOADS = BENCH / "workloads"
USUAL_TARGETS = {"pods_per_second": 2.0, "attempt_p99_ms": 1.0}
LATENCY_TARGETS = {"pods_per_second": 3.0}
FAR_TARGETS = {"pods_per_second": 2.0}
FAR = 50
"""Milliseconds of latency above which FAR_TARGETS apply."""


class SuiteError(Exception):
    """An invalid workload file or an unknown workload; the text has place and cause."""


@dataclass(frozen=True)
class Case:
    """One test case in one size. `at` is its place in messages; paths in it are relative to `folder`.

    `latency` is the additional latency of each call of a contender in milliseconds.
    """

    test: TestCase
    workload: Workload
    folder: Path
    at: str
    latency: int = 0

    @property
    def name(self) -> str:
        """TESTCASE/WORKLOAD, and the latency if there is one."""
        name = f"{self.test.name}/{self.workload.name}"
        return f"{name}/{self.latency}ms" if self.latency else name

    @property
    def targets(self) -> dict[str, float]:
        """Bound of each figure, by the key of its measure; ratios to kube-scheduler's."""
        if self.latency:
            return LATENCY_TARGETS if self.latency <= FAR else FAR_TARGETS
        return USUAL_TARGETS if self.workload.targets is None else self.workload.targets

    def error(self, where: str, problem: str) -> SuiteError:
        """Return the error with its place in the file."""
        return SuiteError(f"{self.at}.{where}: {problem}")

    def document(self, where: str, path: str | None, inline: Json | None) -> Json | None:
        """Return a template given as a path or inline, None if there is neither. SuiteError if it is invalid."""
        if path is None or inline is not None:
            if path is not None:
                raise self.error(where, "give either a template or a path to one, not both")
            return inline
        try:
            found = _parsed(self.folder / path)
        except (OSError, yaml.YAMLError) as problem:
            raise self.error(where, f"{path}: {problem}") from None
        if not isinstance(found, dict) or not isinstance(found.get("kind"), str):
            raise self.error(where, f"{path} is not a Kubernetes object")
        return found


@cache
def _parsed(path: Path) -> Any:
    """Return the content of a YAML file; it is cached, and must not be changed."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def load(paths: Iterable[Path] | None = None) -> list[Case]:
    """Return all sizes of all test cases of these files, by default of the suite. SuiteError."""
    return [case for path in (sorted(WORKLOADS.glob("*.yaml")) if paths is None else paths) for case in _cases(path)]


def _cases(path: Path) -> Iterable[Case]:
    try:
        tests = msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), list[TestCase])
    except (OSError, yaml.YAMLError) as problem:
        raise SuiteError(f"{path.name}: {problem}") from None
    except msgspec.ValidationError as problem:
        what, _, where = str(problem).partition(" - at ")
        raise SuiteError(f"{path.name}: {where.strip('`')}: {what}") from None
    for number, test in enumerate(tests):
        for size, workload in enumerate(test.workloads):
            case = Case(test, workload, path.parent, f"{path.name}: $[{number}]")
            _check_params(case, size)
            yield case


def _check_params(case: Case, size: int) -> None:
    """Raise SuiteError for parameters that are missing or not used."""
    used = {name for op in case.test.workload_template for name in _params(op)}
    given = set(case.workload.params)
    where = f"workloads[{size}].params"
    if missing := used - given:
        raise case.error(where, f"workloadTemplate uses ${min(missing)}, which is not given")
    if unused := given - used:
        raise case.error(where, f"{min(unused)} is not used by workloadTemplate")


def _params(op: Op) -> Iterable[str]:
    for field in ("count_param", "groups_param"):
        name = getattr(op, field, None)
        if name is not None:
            yield name.removeprefix("$")
    inner = getattr(op, "create_pods_op", None)
    if inner is not None:
        yield from _params(inner)


def select(cases: Sequence[Case], names: Sequence[str] = (), labels: Sequence[str] = ()) -> list[Case]:
    """Return the cases with one of the names (TESTCASE, TESTCASE/WORKLOAD, or a pattern with *) and one of the labels.

    SuiteError if a name or label matches nothing.
    """
    for name in names:
        if not any(_named(case, name) for case in cases):
            known = ", ".join(dict.fromkeys(case.test.name for case in cases))
            raise SuiteError(f"there is no workload {name}; use {known}")
    known_labels = {label for case in cases for label in case.workload.labels}
    for label in labels:
        if label not in known_labels:
            raise SuiteError(f"no workload has the label {label}; use {', '.join(sorted(known_labels))}")
    found = [
        case
        for case in cases
        if (not names or any(_named(case, name) for name in names))
        and (not labels or set(labels) & set(case.workload.labels))
    ]
    if not found:
        raise SuiteError(f"none of {', '.join(names)} has the label {' or '.join(labels)}")
    return found


def _named(case: Case, pattern: str) -> bool:
    return fnmatchcase(case.name, pattern) or fnmatchcase(case.test.name, pattern)
