"""Protobuf messages of Kubernetes' API types, from a compact notation.

One message per line: its name (with the first label of its group, unless core or meta, and its version, unless v1),
then its fields as `number=jsonName:kind`; indented lines continue. An empty jsonName is an inlined message. Kinds:

    s text   i integer   b boolean   d float   y bytes   q quantity   t time   x int-or-string   r raw JSON
    e list of text   m:Name message   [kind list   {kind map by text
    capital: a Go pointer, so a zero value means something
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from pyscheduler.embedded.wire.core import CORE
from pyscheduler.embedded.wire.groups import GROUPS
from pyscheduler.embedded.wire.pods import PODS
from pyscheduler.embedded.wire.scheduling import SCHEDULING


@dataclass(frozen=True, slots=True)
class MessageField:
    """One field: `shape` is "", "[" or "{", `kind` a lower-case letter of the notation."""

    name: str
    shape: str
    kind: str
    message: str
    pointer: bool


Message = dict[int, MessageField]


def _field(text: str) -> tuple[int, MessageField]:
    number, _, rest = text.partition("=")
    name, _, kind = rest.partition(":")
    shape = kind[0] if kind[0] in "[{" else ""
    letter, _, message = kind[len(shape) :].partition(":")
    return int(number), MessageField(name, shape, letter.lower(), message, letter.isupper())


@cache
def messages() -> dict[str, Message]:
    """Return the fields by number of each message."""
    found: dict[str, Message] = {}
    for line in "".join((PODS, CORE, SCHEDULING, GROUPS)).splitlines():
        words = line.split()
        if not line.startswith(" "):
            current = found.setdefault(words.pop(0), {}) if words else {}
        current.update(map(_field, words))
    return found


def message_name(api_version: str, kind: str) -> str:
    """Return the name of a kind's message, "" if it is not in the table."""
    group, _, version = api_version.rpartition("/")
    label = group.partition(".")[0] + ("" if version == "v1" else f".{version}")
    name = kind if not group or kind == "DeleteOptions" else f"{label}.{kind}"
    return name if name in messages() else ""
