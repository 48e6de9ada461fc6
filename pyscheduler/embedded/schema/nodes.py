"""A schema as a small tree, the same for built-in kinds and for custom resources.

It says as much as patching and field ownership need: where structs, maps and lists are, and how a list is merged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Anything:
    """A value that is not looked into: scalars, and parts without a schema. It is owned and replaced as a whole."""

    type: str = "object"
    patch_replaces: bool = False
    """Whether a strategic merge patch replaces an object here instead of merging into it."""


@dataclass(frozen=True)
class MapOf:
    """A map with free keys."""

    value: Node


@dataclass(frozen=True)
class ListOf:
    """A list. `keys` make it a map of items, `is_set` a set of scalars, neither makes it atomic (replaced whole)."""

    item: Node
    keys: tuple[str, ...] = ()
    is_set: bool = False
    patch_key: str = ""
    """The key that strategic merge patches match items by; "" where such a patch replaces the list."""
    patch_set: bool = False
    """Whether a strategic merge patch adds scalars to the list instead of replacing it."""
    key_defaults: Mapping[str, Any] | None = None
    """Values of merge keys that an item may leave out."""


class Struct:
    """An object with named fields. The fields are made on first use, since schemas may be recursive."""

    def __init__(self, name: str, fields: Callable[[], Mapping[str, Node]], *, open_ended: bool = False) -> None:
        self.name, self.open_ended = name, open_ended
        self._make = fields
        self._fields: Mapping[str, Node] | None = None

    @property
    def fields(self) -> Mapping[str, Node]:
        """JSON name to schema."""
        if self._fields is None:
            self._fields = self._make()
        return self._fields


Node = Anything | MapOf | ListOf | Struct
ANYTHING = Anything()


def child(node: Node | None, name: str) -> Node:
    """The schema of the member `name`, ANYTHING where the schema does not know it."""
    if isinstance(node, Struct):
        return node.fields.get(name, ANYTHING)
    return node.value if isinstance(node, MapOf) else ANYTHING
