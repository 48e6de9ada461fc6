"""Schema as a tree, for built-in kinds and custom resources.

It contains what patching and field ownership need: structs, maps and lists, and the merge strategy of lists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Anything:
    """A value that is not inspected: scalars, and parts without a schema. It is owned and replaced as a whole."""

    type: str = "object"


@dataclass(frozen=True)
class MapOf:
    """A map with arbitrary keys."""

    value: Node


@dataclass(frozen=True)
class ListOf:
    """A list. `keys` make it a map of items, `is_set` a set of scalars, neither makes it atomic (replaced whole)."""

    item: Node
    keys: tuple[str, ...] = ()
    is_set: bool = False
    patch_key: str = ""
    """Merge key of strategic merge patches; "" if such a patch replaces the list."""
    patch_set: bool = False
    """True if a strategic merge patch adds scalars to the list instead of replacing it."""
    key_defaults: Mapping[str, Any] | None = None
    """Default values of merge keys that an item may omit."""


class Struct:
    """An object with named fields. The fields are created on first use, since schemas may be recursive."""

    def __init__(
        self,
        name: str,
        fields: Callable[[], Mapping[str, Node]],
        *,
        open_ended: bool = False,
        atomic: bool = False,
        patch_replaces: bool = False,
    ) -> None:
        """Return an object schema.

        An `atomic` object is owned and applied as a whole; with `patch_replaces` a strategic merge patch replaces it
        too. An `open_ended` one may have other fields.
        """
        self.name, self.open_ended, self.atomic, self.patch_replaces = name, open_ended, atomic, patch_replaces
        self._make = fields
        self._fields: Mapping[str, Node] | None = None

    @property
    def fields(self) -> Mapping[str, Node]:
        """Schemas by JSON name."""
        if self._fields is None:
            self._fields = self._make()
        return self._fields


Node = Anything | MapOf | ListOf | Struct
ANYTHING = Anything()


def is_granular(node: Node) -> bool:
    """Return True if the members of an object are owned and applied one by one."""
    return isinstance(node, MapOf) or (isinstance(node, Struct) and not node.atomic)


def child(node: Node | None, name: str) -> Node:
    """Return the schema of the member `name`, ANYTHING if the schema does not have it."""
    if isinstance(node, Struct):
        return node.fields.get(name, ANYTHING)
    return node.value if isinstance(node, MapOf) else ANYTHING
