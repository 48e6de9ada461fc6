"""Forms of the tables: the notation of `embedded/wire/table.py`, and field numbers as Python constants."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

from tools.protobuf.proto import Field, Messages

_META = "k8s.io.apimachinery.pkg.apis.meta.v1"
_SCALARS = {"string": "s", "int32": "i", "int64": "i", "bool": "b", "double": "d", "bytes": "y"}
_SPECIAL = {
    f"{_META}.Time": "t",
    f"{_META}.MicroTime": "t",
    f"{_META}.FieldsV1": "r",
    "k8s.io.apimachinery.pkg.runtime.RawExtension": "r",
    "k8s.io.apimachinery.pkg.api.resource.Quantity": "q",
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": "x",
    "k8s.io.api.authentication.v1.ExtraValue": "e",
    "k8s.io.api.authorization.v1.ExtraValue": "e",
}
_LABELLED = re.compile(r"k8s\.io\.api\.(?!core\.)(\w+)\.(?:v1|(\w+))\.(\w+)")
_WIDTH = 108
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def reachable(messages: Messages, roots: Iterable[str], seen: dict[str, str]) -> None:
    """Add the table line of each root and of all messages below it to `seen`, depth first; skip what it contains."""
    for name in roots:
        if name not in seen and name in messages:
            seen[name] = ""  # before its fields, so that recursion ends
            seen[name] = _line(name, messages[name])
            reachable(messages, (f.type for f in messages[name] if f.type not in _SPECIAL), seen)


def short_name(name: str) -> str:
    """Return the name of a message in the table: with the first label of its group, unless core or meta.

    A version other than v1 follows the group.
    """
    match = _LABELLED.fullmatch(name)
    return ".".join(filter(None, match.groups())) if match else name.rpartition(".")[2]


def _line(name: str, fields: Sequence[Field]) -> str:
    words = " ".join((short_name(name), *map(_notation, sorted(fields, key=lambda field: field.number))))
    return textwrap.fill(words, _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _notation(field: Field) -> str:
    letter = _SCALARS.get(field.type) or _SPECIAL.get(field.type, "m")
    kind = letter.upper() if field.pointer else letter
    message = f":{short_name(field.type)}" if letter == "m" else ""
    return f"{field.number}={'' if field.inline else field.name}:{field.shape}{kind}{message}"


def constants(messages: Messages, names: Iterable[str]) -> str:
    """Return a class with the field numbers of each message in `names`, which are full names."""
    return "\n\n".join(_class(name.rpartition(".")[2], messages[name]) for name in names)


def _class(name: str, fields: Sequence[Field]) -> str:
    numbers = [f"    {_WORD.sub('_', field.name).upper()}: Final = {field.number}\n" for field in fields]
    return f'class {name}Fields:\n    """Field numbers of {name}."""\n\n{"".join(numbers)}'
