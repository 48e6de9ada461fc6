"""OpenAPI v3 schemas that Kubernetes publishes, of all served API versions.

`make openapi` extracts them into one compressed file. It is read at the first request that needs a schema, and each
definition is decoded at its first use: a server that serves only reads does not pay for them.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

_FILE = Path(__file__).with_name("kubernetes.json.gz")
PREFIX = "#/components/schemas/"
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_REFERENCE = re.compile(rb'"#/components/schemas/([^"]+)"')

Schema = Mapping[str, Any]


class _Document(msgspec.Struct):
    kinds: dict[str, str]
    definitions: dict[str, msgspec.Raw]


@cache
def _document() -> _Document:
    return msgspec.json.decode(gzip.decompress(_FILE.read_bytes()), type=_Document)


def definition_name(group: str, version: str, kind: str) -> str:
    """Return the name of a kind's definition, such as `io.k8s.api.apps.v1.Deployment`; "" if none is published."""
    return _document().kinds.get(f"{group}/{version}/{kind}", "")


def encoded(name: str) -> msgspec.Raw:
    """Return the definition `name` as JSON. KeyError if it is not published."""
    return _document().definitions[name]


@cache
def definition(name: str) -> Schema:
    """Return the definition `name`. KeyError if it is not published."""
    found: Schema = msgspec.json.decode(encoded(name))
    return found


def closure(names: Iterable[str]) -> list[str]:
    """Return the names and those of all definitions that these refer to, sorted."""
    left, found = list(names), set[str]()
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += (match.decode() for match in _REFERENCE.findall(bytes(encoded(name))))
    return sorted(found)


def reference(schema: Schema) -> str:
    """Return the name of the definition that the schema of a field refers to, "" if it is complete in itself."""
    whole = schema.get("allOf") or (schema,)
    return str(whole[0].get("$ref", "")).removeprefix(PREFIX)
