"""Protobuf form of an OpenAPI v2 document, which kubectl and Helm request.

Messages and field numbers are those of gnostic's openapiv2/OpenAPIv2.proto. Extensions (`x-...`) are YAML text there,
for which JSON will do.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pyscheduler.embedded.objects import Json

MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_json = msgspec.json.Encoder().encode

_TEXT_FIELDS = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13}
_FLOAT_FIELDS = {"multipleOf": 6, "maximum": 7, "minimum": 9}
_NUMBER_FIELDS = {
    "exclusiveMaximum": 8,
    "exclusiveMinimum": 10,
    "maxLength": 11,
    "minLength": 12,
    "maxItems": 14,
    "minItems": 15,
    "uniqueItems": 16,
    "maxProperties": 17,
    "minProperties": 18,
}
_REQUIRED, _ENUM, _ADDITIONAL, _TYPE, _ITEMS, _PROPERTIES, _EXTENSION = 19, 20, 21, 22, 23, 25, 31


def encode_document(document: Json) -> bytes:
    """Return an OpenAPI v2 document as a message Document."""
    info = document["info"]
    definitions = (_field(1, _named(name, encode_schema(s))) for name, s in document["definitions"].items())
    paths = (_field(2, _named(path, _path_item(item))) for path, item in document["paths"].items())
    return b"".join((
        _text(1, document["swagger"]),
        _field(2, _text(1, info["title"]) + _text(2, info["version"])),
        _field(8, b"".join(paths)),
        _field(9, b"".join(definitions)),
    ))  # fmt: skip


def encode_schema(schema: Mapping[str, Any]) -> bytes:
    """Return a message Schema."""
    parts = [_text(number, schema[name]) for name, number in _TEXT_FIELDS.items() if name in schema]
    parts += [
        _key(number, 1) + struct.pack("<d", schema[name]) for name, number in _FLOAT_FIELDS.items() if name in schema
    ]
    parts += [_key(number, 0) + _varint(int(schema[name])) for name, number in _NUMBER_FIELDS.items() if name in schema]
    parts += [_text(_REQUIRED, name) for name in schema.get("required") or ()]
    parts += [_field(_ENUM, _any(value)) for value in schema.get("enum") or ()]
    extra = schema.get("additionalProperties")
    if isinstance(extra, Mapping):
        parts.append(_field(_ADDITIONAL, _field(1, encode_schema(extra))))
    elif extra is not None:
        parts.append(_field(_ADDITIONAL, _key(2, 0) + _varint(int(extra))))
    if "type" in schema:
        parts.append(_field(_TYPE, _text(1, schema["type"])))
    if "items" in schema:
        parts.append(_field(_ITEMS, _field(1, encode_schema(schema["items"]))))
    if "properties" in schema:
        fields = (_field(1, _named(name, encode_schema(field))) for name, field in schema["properties"].items())
        parts.append(_field(_PROPERTIES, b"".join(fields)))
    return b"".join([*parts, *_extensions(_EXTENSION, schema)])


def _path_item(item: Json) -> bytes:
    return b"".join(_field({"get": 2, "patch": 8}[verb], _operation(operation)) for verb, operation in item.items())


def _operation(operation: Json) -> bytes:
    parts = [_text(7, media_type) for media_type in operation.get("consumes") or ()]
    parts += [_field(8, _query_parameter(parameter)) for parameter in operation.get("parameters") or ()]
    for code, response in operation["responses"].items():
        body = _text(1, response["description"]) + _field(2, _field(1, encode_schema(response["schema"])))
        parts.append(_field(9, _field(1, _named(code, _field(1, body)))))
    return b"".join([*parts, *_extensions(13, operation)])


def _query_parameter(parameter: Json) -> bytes:
    """Return a ParametersItem: a Parameter that is a NonBodyParameter of the query."""
    query = b"".join((
        _text(2, parameter["in"]),
        _text(4, parameter["name"]),
        _text(6, parameter["type"]),
        _key(20, 0) + _varint(1),
    ))  # fmt: skip
    return _field(1, _field(2, _field(3, query)))


def _extensions(number: int, holder: Mapping[str, Any]) -> Iterable[bytes]:
    return (_field(number, _named(name, _any(value))) for name, value in holder.items() if name.startswith("x-"))


def _any(value: Any) -> bytes:
    return _field(2, _json(value))


def _named(name: str, value: bytes) -> bytes:
    return _text(1, name) + _field(2, value)


def _text(number: int, value: str) -> bytes:
    return _field(number, str(value).encode())


def _field(number: int, value: bytes) -> bytes:
    return _key(number, 2) + _varint(len(value)) + value


def _key(number: int, wire_type: int) -> bytes:
    return _varint(number << 3 | wire_type)


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # two's complement
    result = bytearray()
    while value >= 0x80:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)
