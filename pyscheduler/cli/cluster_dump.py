"""Reader of cluster dumps for `up --load`: output of kubectl in YAML or JSON, and folders of `cluster-info dump`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from pyscheduler.cli.command_problem import CommandProblem, unreadable
from pyscheduler.embedded.snapshot import PlacedObject

_SUFFIXES: Final = (".yaml", ".yml", ".json")
_SPACE: Final = re.compile(r"\s*")
_LOG_START, _LOG_END = "==== START logs", "==== END logs"
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster, if libyaml is installed


class _Loader(_Base):  # type: ignore[misc]
    """Loader that leaves times as text, as JSON does."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in _Base.yaml_implicit_resolvers.items()
}


def read_dumps(paths: Sequence[Path]) -> list[PlacedObject]:
    """Return the objects of files and folders; lists are opened. CommandProblem names file and place."""
    return [placed for path in paths for file in _files(path) for placed in _read(file)]


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(found for found in path.rglob("*") if found.suffix in _SUFFIXES and found.is_file())
    if not files:
        raise CommandProblem(f"--load {path}: has no .yaml, .yml or .json files")
    return files


def _read(file: Path) -> Iterator[PlacedObject]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise unreadable(file, error) from None
    documents = _json_documents(file, text) if text.lstrip()[:1] in ("{", "[") else _yaml_documents(file, text)
    for number, document in enumerate(documents, 1):
        if document is not None:
            yield from _objects(document, f"{file}: document {number}" if len(documents) > 1 else str(file))


def _json_documents(file: Path, text: str) -> list[Any]:
    """Return the JSON values of a file; the logs in between, as in the output of `cluster-info dump`, are left out."""
    text, decoder, documents = _without_logs(text), json.JSONDecoder(), []
    at = _after_space(text, 0)
    while at < len(text):
        try:
            document, at = decoder.raw_decode(text, at)
        except ValueError as error:
            raise CommandProblem(f"{file}: not valid JSON: {error}") from None
        except RecursionError:
            raise CommandProblem(f"{file}: not readable: nested too deeply") from None
        documents.append(document)
        at = _after_space(text, at)
    return documents


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _without_logs(text: str) -> str:
    if _LOG_START not in text:
        return text
    lines, in_logs = [], False
    for line in text.splitlines():
        in_logs = in_logs or line.startswith(_LOG_START)
        if not in_logs:
            lines.append(line)
        in_logs = in_logs and not line.startswith(_LOG_END)
    return "\n".join(lines)


def _yaml_documents(file: Path, text: str) -> list[Any]:
    try:
        return list(yaml.load_all(text, Loader=_Loader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else str(file)
        raise CommandProblem(f"{place}: not valid YAML: {getattr(error, 'problem', None) or error}") from None
    except RecursionError:
        raise CommandProblem(f"{file}: not readable: nested too deeply") from None


def _objects(document: Any, place: str) -> Iterator[PlacedObject]:
    if not isinstance(document, dict):
        raise CommandProblem(f"{place}: must be a Kubernetes object or a list of them, is {type(document).__name__}")
    for name in ("apiVersion", "kind"):
        if not isinstance(document.get(name), str):
            raise CommandProblem(f"{place}: {name}: is required")
    kind = str(document["kind"])
    if kind.endswith("List"):
        yield from _items(document, kind, place)
        return
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise CommandProblem(f"{place}: metadata.name: is required")
    yield PlacedObject(f"{place}: {kind} {metadata['name']}", document)


def _items(document: dict[str, Any], kind: str, place: str) -> Iterator[PlacedObject]:
    items = document.get("items")
    if not isinstance(items or [], list):
        raise CommandProblem(f"{place}: items: must be a list, is {type(items).__name__}")
    # The items of a PodList and the like need not repeat their kind.
    inherited = {} if kind == "List" else {"apiVersion": document["apiVersion"], "kind": kind.removesuffix("List")}
    for i, item in enumerate(items or ()):
        yield from _objects({**inherited, **item} if isinstance(item, dict) else item, f"{place}: items[{i}]")
