"""The public interface as text: names and signatures of pyscheduler.api and pyscheduler.testing, one a line.

`python -m tests.unit.api.public_api` writes it to public_api.txt, which a test compares.
"""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final, get_origin

import pyscheduler.api
import pyscheduler.testing

_ADDRESS: Final = re.compile(r"<[\w.]+ object at 0x[0-9a-f]+>")
FILE: Final = Path(__file__).with_suffix(".txt")


def describe_modules() -> str:
    """Return the whole interface, sorted by module and name."""
    lines = [line for module in (pyscheduler.api, pyscheduler.testing) for line in _module(module)]
    return "\n".join(lines) + "\n"


def _module(module: ModuleType) -> Iterator[str]:
    for name in sorted(module.__all__):
        yield from _object(f"{module.__name__}.{name}", getattr(module, name))


def _object(path: str, thing: Any) -> Iterator[str]:
    if inspect.isclass(thing):
        yield f"class {path}({', '.join(base.__name__ for base in thing.__bases__)})"
        yield from _members(path, thing)
    elif callable(thing) and hasattr(thing, "__name__"):
        yield f"{path}{_signature(thing)}"
    else:
        yield f"{path}: {type(thing).__name__}"


def _members(path: str, owner: type) -> Iterator[str]:
    if issubclass(owner, enum.Enum):
        for member in owner:
            yield f"{path}.{member.name}"
        return
    fields = {name: kind for name, kind in inspect.get_annotations(owner).items() if name[0] != "_"}
    for name, kind in sorted(fields.items()):
        yield f"{path}.{name}: {kind}"
    for name, member in sorted(vars(owner).items()):
        is_public = not name.startswith("_") or (name == "__init__" and not getattr(owner, "_is_protocol", False))
        if name in fields or not is_public:
            continue
        if isinstance(member, property):
            yield f"{path}.{name}: property"
        elif isinstance(member, staticmethod | classmethod):
            yield f"{path}.{name}{_signature(member.__func__)} {type(member).__name__}"
        elif inspect.isfunction(member):
            kind = "async " if inspect.iscoroutinefunction(member) else ""
            yield f"{kind}{path}.{name}{_signature(member)}"


def _signature(function: Any) -> str:
    if get_origin(function) is not None:
        return "(...)"  # an alias of a type
    try:
        return _ADDRESS.sub("...", str(inspect.signature(function)))
    except ValueError:
        return "(...)"


if __name__ == "__main__":
    FILE.write_text(describe_modules(), encoding="utf-8")
