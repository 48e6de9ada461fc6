"""Parsing of requests: the path into a target, the Accept header into a view, the body into an object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec
import yaml
from aiohttp import web

from pyscheduler.embedded.objects import without_nulls
from pyscheduler.embedded.server_state import WriteOptions
from pyscheduler.embedded.status import ApiStatusError, bad_request, unsupported_media_type
from pyscheduler.embedded.wire.decode import MAGIC, decode_object

PLAIN, TABLE, METADATA = "plain", "table", "metadata"
_VALIDATIONS = ("Strict", "Warn", "Ignore")
_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed resource path; missing parts are empty."""

    group: str
    version: str
    namespace: str
    plural: str
    name: str
    subresource: str


def parse_path(path: str) -> Target | None:
    """Return the target of a path below /api/v1/ or /apis/group/version/, None if it is no resource path."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and not (len(rest) == 3 and rest[2] in {"status", "finalize"}):
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = [*rest, "", ""][:3]
    return Target(group, version, namespace, plural, name, subresource)


@lru_cache(maxsize=256)
def view_of(accept: str) -> str:
    """Return the view that Accept selects: plain, table or metadata. ApiStatusError 406 if it excludes JSON."""
    if not accept:
        return PLAIN
    for choice in accept.split(","):
        media_type, *parameters = (part.strip() for part in choice.split(";"))
        if media_type not in {"application/json", "application/*", "*/*"}:
            continue
        requested = dict(p.partition("=")[::2] for p in parameters).get("as", "")
        if requested == "Table":
            return TABLE
        if requested in {"PartialObjectMetadata", "PartialObjectMetadataList"}:
            return METADATA
        if not requested:
            return PLAIN
    message = "only the following media types are accepted: application/json, application/json;as=Table"
    raise ApiStatusError(406, "NotAcceptable", message)


def wants_aggregated_discovery(accept: str) -> bool:
    """Return True if the client prefers discovery in one document (apidiscovery.k8s.io/v2)."""
    return any("as=APIGroupDiscoveryList" in choice and "v=v2" in choice.split(";") for choice in accept.split(","))


async def read_body(request: web.BaseRequest) -> Any:
    """Return the body, JSON or YAML, without nulls; None if it is empty. ApiStatusError 400 or 415 if malformed."""
    raw = await request.read()
    if not raw:
        return None
    kind = request.content_type
    if kind.endswith(("yaml", "yml")):
        return _without_nulls_in(raw, _from_yaml(raw))
    if raw.startswith(MAGIC):
        return decode_object(raw)
    if "protobuf" in kind or "cbor" in kind:
        raise unsupported_media_type(["application/json", "application/yaml"])
    try:
        body = _decode(raw)
    except msgspec.DecodeError as error:
        raise bad_request(f"the body of the request is not JSON: {error}") from None
    # In a merge patch null means "remove".
    return body if "patch" in kind else _without_nulls_in(raw, body)


def _without_nulls_in(raw: bytes, body: Any) -> Any:
    return without_nulls(body) if b"null" in raw or b"~" in raw or b":\n" in raw else body


class _Loader(yaml.SafeLoader):
    """YAML loader that leaves timestamps as text, as in JSON."""


_Loader.yaml_implicit_resolvers = {
    letter: [(tag, form) for tag, form in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _from_yaml(raw: bytes) -> Any:
    try:
        return yaml.load(raw, Loader=_Loader)
    except yaml.YAMLError as error:
        raise bad_request(f"the body of the request is not YAML: {' '.join(str(error).split())}") from None


def write_options(_request: web.BaseRequest, query: Mapping[str, str], warnings: list[str]) -> WriteOptions:
    """Return the options of a write. Fields are validated only if the client requests it (kubectl does)."""
    validation = query.get("fieldValidation") or "Ignore"
    if validation not in _VALIDATIONS:
        raise bad_request(f"fieldValidation {validation!r} is not one of {', '.join(_VALIDATIONS)}")
    return WriteOptions(
        dry_run=is_dry_run(query),
        manager=query.get("fieldManager", ""),
        force=query.get("force") == "true",
        validation=validation,
        warn=warnings.append,
    )


def is_dry_run(query: Mapping[str, str]) -> bool:
    """Return True if the request is a dry run. ApiStatusError 400 for values other than All."""
    value = query.get("dryRun", "")
    if value not in {"", "All"}:
        raise bad_request(f"dryRun {value!r} is not supported; use All")
    return value == "All"
