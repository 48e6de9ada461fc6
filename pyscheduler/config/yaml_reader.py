"""YAML reader that keeps lines and detects duplicate keys.

Values are those of JSON, because Kubernetes converts YAML to JSON: keys are strings, dates stay text.
"""

from __future__ import annotations

from typing import Any

import msgspec
import yaml
from yaml.constructor import SafeConstructor
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from pyscheduler.config.problems import Problem, under

_MERGE = "tag:yaml.org,2002:merge"
_TEXT = frozenset({"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value"})
_MOST_VALUES = 100_000


class Document(msgspec.Struct):
    """One YAML document: its value, the line of each path and the problems found."""

    value: Any
    lines: dict[str, int] = msgspec.field(default_factory=dict)
    problems: list[Problem] = msgspec.field(default_factory=list)


class InvalidYaml(Exception):
    """Invalid YAML."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def read(text: str) -> list[Document]:
    """Return the non-empty documents of a YAML text. InvalidYaml if it cannot be parsed."""
    try:
        nodes = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
        documents = [_Reader().document(node) for node in nodes]
    except yaml.MarkedYAMLError as e:
        raise InvalidYaml(_not_yaml(e)) from None
    except yaml.YAMLError as e:
        raise InvalidYaml(Problem("", f"not valid YAML: {' '.join(str(e).split())}")) from None
    except RecursionError:
        raise InvalidYaml(Problem("", "not readable: nested too deeply")) from None
    return [d for d in documents if d.value is not None or d.problems]


def _not_yaml(error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    what = error.problem or error.context or "it cannot be parsed"
    if "\\t" in what:
        what += " (YAML is indented with spaces, not tabs)"
    where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
    return Problem("", f"not valid YAML: {what}{where}", mark.line + 1 if mark else None)


class _Reader:
    """Conversion of one document's nodes."""

    def __init__(self) -> None:
        self._out = Document(None)
        self._open: set[int] = set()
        self._values = 0
        self._constructor = SafeConstructor()

    def document(self, node: Node) -> Document:
        self._out.lines[""] = _line(node)
        self._out.value = self._value(node, "")
        return self._out

    def _value(self, node: Node, path: str) -> Any:
        self._values += 1
        if self._values > _MOST_VALUES:
            raise yaml.YAMLError(f"it holds more than {_MOST_VALUES} values")
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        if id(node) in self._open:
            self._problem(path, "the alias refers to a node that contains it", node)
            return None
        self._open.add(id(node))
        value = self._mapping(node, path) if isinstance(node, MappingNode) else self._sequence(node, path)
        self._open.discard(id(node))
        return value

    def _scalar(self, node: ScalarNode, path: str) -> Any:
        if node.tag in _TEXT:
            return node.value
        try:
            return self._constructor.construct_object(node)
        except yaml.YAMLError as e:
            self._problem(path, getattr(e, "problem", None) or str(e), node)
        except (ValueError, KeyError, OverflowError):
            kind = node.tag.rsplit(":", 1)[-1]
            self._problem(path, f'"{node.value[:40]}" cannot be read as {kind}', node)
        return None

    def _sequence(self, node: Node, path: str) -> list[Any]:
        assert isinstance(node, SequenceNode)
        items = []
        for i, item in enumerate(node.value):
            here = f"{path}[{i}]"
            self._out.lines.setdefault(here, _line(item))
            items.append(self._value(item, here))
        return items

    def _mapping(self, node: MappingNode, path: str) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        first: dict[str, int] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                merged = {**self._merged(value_node, path), **merged}
                continue
            if not isinstance(key_node, ScalarNode):
                self._problem(path, "a key must be plain text", key_node)
                continue
            key, here = key_node.value, under(path, key_node.value)
            if key in first:
                self._problem(here, f"is given twice (first on line {first[key]})", key_node)
                continue
            first[key] = self._out.lines[here] = _line(key_node)
            own[key] = self._value(value_node, here)
        return {**merged, **own}

    def _merged(self, node: Node, path: str) -> dict[str, Any]:
        """Return the keys that `<<` merges; the first of several mappings wins."""
        sources = node.value if isinstance(node, SequenceNode) else [node]
        merged: dict[str, Any] = {}
        for source in sources:
            value = self._value(source, path)
            if isinstance(value, dict):
                merged = {**value, **merged}
            else:
                self._problem(path, "<< must name a mapping", source)
        return merged

    def _problem(self, path: str, message: str, node: Node) -> None:
        self._out.problems.append(Problem(path, message, _line(node)))


def _line(node: Node) -> int:
    line: int = node.start_mark.line
    return line + 1
