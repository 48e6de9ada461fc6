"""Task files: YAML documents, each a task or a list of tasks, or JSON with one task per line."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from pyscheduler.backend.task import TaskProblem, TaskSpec, checked, decode_spec
from pyscheduler.cli.problems import CommandProblem, unreadable

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster, if libyaml is installed


def read_tasks(file: str) -> list[TaskSpec]:
    """Read all tasks of a file, `-` for standard input. CommandProblem names file, place and field."""
    text = _text(file)
    lines_of_json = text.lstrip().startswith("{")
    values = _json_lines(file, text) if lines_of_json else _documents(file, text)
    specs = [_spec(place, value) for place, value in values]
    if not specs:
        raise CommandProblem(f"{file}: has no tasks; see `pyscheduler tasks submit --help` for the format")
    return _unique(file, specs)


def validated(spec: TaskSpec) -> TaskSpec:
    """Return the spec if it is valid. CommandProblem otherwise."""
    try:
        return checked(spec)
    except TaskProblem as problem:
        raise CommandProblem(str(problem)) from None


def _text(file: str) -> str:
    try:
        if file == "-":
            return sys.stdin.read()
        return Path(file).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as problem:
        raise unreadable(file, problem) from None


def _json_lines(file: str, text: str) -> Iterator[tuple[str, Any]]:
    try:
        yield file, msgspec.json.decode(text)  # a single task may span several lines
        return
    except msgspec.DecodeError:
        pass
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                yield f"{file}:{number}", msgspec.json.decode(line)
            except msgspec.DecodeError as problem:
                raise CommandProblem(f"{file}:{number}: is not JSON: {problem}; write one task per line") from None


def _documents(file: str, text: str) -> Iterator[tuple[str, Any]]:
    try:
        documents = list(yaml.load_all(text, Loader=_Loader))
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        place = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else file
        raise CommandProblem(f"{place}: not valid YAML: {getattr(problem, 'problem', None) or problem}") from None
    for number, document in enumerate(documents, 1):
        place = f"{file}: document {number}" if len(documents) > 1 else file
        if isinstance(document, list):
            yield from ((f"{place}: [{index}]", value) for index, value in enumerate(document))
        elif document is not None:
            yield place, document


def _spec(place: str, value: Any) -> TaskSpec:
    try:
        return validated(decode_spec(value))
    except msgspec.ValidationError as problem:
        raise CommandProblem(f"{place}: {problem}") from None
    except CommandProblem as problem:
        raise CommandProblem(f"{place}: {problem}") from None


def _unique(file: str, specs: Iterable[TaskSpec]) -> list[TaskSpec]:
    """Return the specs without duplicates. CommandProblem if an id is used for two different tasks."""
    by_id: dict[str, TaskSpec] = {}
    for spec in specs:
        if by_id.setdefault(spec.id, spec) != spec:
            raise CommandProblem(f"{file}: the id {spec.id!r} is used for two different tasks: give each its own")
    return list(by_id.values())
