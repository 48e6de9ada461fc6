"""Reader of Kubernetes' generated.proto files and of the Go structs that they are generated from.

The .proto files contain names, numbers and types. Two things are in the Go sources only: whether a field is a pointer,
so that a zero value means something, and whether JSON inlines it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PACKAGE = re.compile(r"^package ([\w.]+);", re.MULTILINE)
_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(
    r"^  (?:optional|required|(?P<repeated>repeated)|map<string, (?P<values>[\w.]+)>) ?(?P<type>[\w.]+)? "
    r"(?P<name>\w+) = (?P<number>\d+)(?: \[.*\])?;$",
    re.MULTILINE,
)
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_TAGGED = re.compile(r'^\t(?:\w+\s+)?(?P<type>\S+)\s+`.*protobuf:"\w+,(?P<number>\d+),', re.MULTILINE)
_INLINE = re.compile(r'json:"(?:[^"]*,inline|")')  # the second form since Kubernetes 1.37


@dataclass(frozen=True)
class Field:
    """One field of a message. `type` is a scalar or a full message name; `shape` is "", "[" (list) or "{" (map)."""

    number: int
    name: str
    type: str
    shape: str
    pointer: bool
    inline: bool


Messages = dict[str, list[Field]]
"""Fields by full message name, such as `k8s.io.api.core.v1.Pod`."""


def read_package(folder: Path) -> Messages:
    """Return the messages of generated.proto in `folder`, with the Go sources beside it."""
    text = (folder / "generated.proto").read_text(encoding="utf-8")
    found = _PACKAGE.search(text)
    if found is None:
        raise ValueError(f"{folder}: generated.proto has no package")
    package, bodies = found[1], dict(_MESSAGE.findall(text))
    pointers, inlined = _go_fields(folder)

    def field(message: str, match: re.Match[str]) -> Field:
        key = (message, int(match["number"]))
        kind = _full_name(match["values"] or match["type"], package, bodies)
        shape = "{" if match["values"] else "[" if match["repeated"] else ""
        return Field(key[1], match["name"], kind, shape, key in pointers, key in inlined)

    return {f"{package}.{name}": [field(name, m) for m in _declarations(body)] for name, body in bodies.items()}


def _declarations(body: str) -> Iterator[re.Match[str]]:
    """Yield the fields of a message. ValueError for a line that is neither a field nor a comment."""
    for line in filter(str.strip, body.splitlines()):
        match = _FIELD.match(line)
        if match is not None:
            yield match
        elif not line.lstrip().startswith("//"):
            raise ValueError(f"unknown declaration: {line}")


def _full_name(kind: str, package: str, local: dict[str, str]) -> str:
    return f"{package}.{kind}" if kind in local else kind.removeprefix(".")


def _go_fields(folder: Path) -> tuple[set[tuple[str, int]], set[tuple[str, int]]]:
    """Return (struct, field number) of the pointers, and of the fields that JSON inlines."""
    pointers, inlined = set(), set()
    for path in sorted(folder.glob("*.go")):
        for name, body in _STRUCT.findall(path.read_text(encoding="utf-8")):
            for match in _TAGGED.finditer(body):
                key = (name, int(match["number"]))
                if match["type"].startswith("*"):
                    pointers.add(key)
                if _INLINE.search(match[0]):
                    inlined.add(key)
    return pointers, inlined
