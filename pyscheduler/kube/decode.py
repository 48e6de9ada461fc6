"""Decode lists and watch events into objects, one at a time, and split a watch into its events.

An object that cannot be decoded affects only itself: its identity is returned as far as possible, `Refusals` logs and
counts it, and decoding continues. An object that is nested too deep is decoded without its deepest levels: a running
pod must count on its node, whatever else its manifest contains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, NamedTuple, TypeVar, get_origin

import msgspec

from pyscheduler import logs
from pyscheduler.kube.sanitize import PLACEHOLDER, sanitize

T = TypeVar("T")
R = TypeVar("R")

ADDED, MODIFIED, DELETED, BOOKMARK, ERROR = "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"
_CHANGES = (ADDED, MODIFIED, DELETED)
UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Exceptions that a decoder may raise for arbitrary input."""
LONGEST_LINE: Final = 64 * 1024 * 1024
"""Bytes of a watch event. Objects in etcd have at most 1.5 MiB by default; a longer line is no watch event."""
_REMEMBERED = 1000
_MOST_TEXT = 200
_SKIPPED = "Skipped an object that cannot be read"
_SHORTENED = "Read an object without what is nested too deep in it"


class UnreadableList(ValueError):
    """The envelope of a list or watch event is malformed: nothing in it can be trusted."""


class LineTooLong(ValueError):
    """A line exceeds the limit: the peer does not send a watch."""


class Identity(NamedTuple):
    """Identity and version of an object."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    version: str = ""


class Item(NamedTuple, Generic[T]):
    """A decoded object; `object` is None if it cannot be decoded or is not needed."""

    identity: Identity
    object: T | None


class Line(NamedTuple, Generic[T]):
    """A watch event: its type, its object, and for ERROR the code and message of the Status."""

    type: str
    item: Item[T]
    code: int = 0
    message: str = ""


class Page(NamedTuple, Generic[T]):
    """A page of a list; the items are decoded during iteration. `next` is "" on the last page."""

    items: Iterator[Item[T]]
    version: str
    next: str


class Lines:
    """Line splitter: chunks of a watch in, wherever the network splits them, complete lines out.

    aiohttp's line reader fails at its buffer limit; a line here may be as large as any API object, and the parts of a
    long line are joined once.
    """

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that end in `chunk`, without newlines; empty ones are omitted. LineTooLong."""
        first, *others = chunk.split(b"\n")
        self._parts.append(first)
        self._size += len(first)
        if self._size > self._longest:
            raise LineTooLong(f"a line of the watch is longer than {self._longest} bytes")
        if not others:
            return []
        whole = [b"".join(self._parts), *others[:-1]]
        self._parts, self._size = [others[-1]], len(others[-1])
        return list(filter(None, whole))


class Refusals:
    """Log and count objects that cannot be decoded: each problem is logged once, within a limit, and counted always."""

    def __init__(self, count: Callable[[str], None] = lambda _: None) -> None:
        self._count = count
        self._log = logs.LimitedLog("decode")
        self._last: dict[tuple[str, str, str], str] = {}

    def report(self, resource: str, namespace: str, name: str, problem: BaseException) -> None:
        """Report a skipped object of `resource` (plural), also one with an invalid quantity or selector."""
        self._report(_SKIPPED, resource, namespace, name, problem)

    def report_shortened(self, resource: str, identity: Identity) -> None:
        """Report an object that was decoded without its deepest levels."""
        problem = ValueError("it has more levels than any Kubernetes type")
        self._report(_SHORTENED, resource, identity.namespace, identity.name, problem)

    def _report(self, message: str, resource: str, namespace: str, name: str, problem: BaseException) -> None:
        self._count(resource)
        key, text = (resource, namespace, name), str(problem)[:_MOST_TEXT]
        if self._last.get(key) == text:
            return
        if len(self._last) >= _REMEMBERED:
            self._last.clear()
        where = f"{namespace}/{name}" if namespace else name
        if self._log.warning(message, problem, resource=resource, object=where or "unknown"):
            self._last[key] = text


class _ListMeta(msgspec.Struct):
    version: str = msgspec.field(name="resourceVersion", default="")
    next: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _WatchEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Meta(msgspec.Struct):
    name: Any = ""
    namespace: Any = ""
    uid: Any = ""
    version: Any = msgspec.field(name="resourceVersion", default="")


class _Named(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _Status(msgspec.Struct):
    code: int = 0
    message: str = ""
    reason: str = ""


_list = msgspec.json.Decoder(_List).decode
_event = msgspec.json.Decoder(_WatchEvent).decode
_named = msgspec.json.Decoder(_Named).decode
_status = msgspec.json.Decoder(_Status).decode


class ObjectDecoder(Generic[T]):
    """Decode lists and watches of one resource into objects of `type`.

    `type` is dict[str, Any], or a struct with `metadata` that has namespace, name, uid and resource_version.
    managedFields are dropped from dicts unless `managed_fields` is True.
    """

    def __init__(self, resource: str, type: type[T], refusals: Refusals, *, managed_fields: bool = False) -> None:
        self._resource = resource
        self._decode: Callable[[msgspec.Raw], T] = msgspec.json.Decoder(type).decode
        event = msgspec.defstruct("Event", [("type", str), ("object", type)])
        self._decode_event: Callable[[bytes], Any] = msgspec.json.Decoder(event).decode
        items: Any = list[type] | None  # type: ignore[valid-type]
        page = msgspec.defstruct("List", [("metadata", _ListMeta), ("items", items, None)])
        self._decode_page: Callable[[bytes], Any] = msgspec.json.Decoder(page).decode
        self._plain = get_origin(type) is dict
        self._refusals, self._has_managed_fields = refusals, managed_fields
        self.store: Callable[[Item[T], msgspec.Raw], None] | None = None
        """Receives each added, modified or listed object with its JSON; None if nothing needs the JSON."""

    def page(self, body: bytes) -> Page[T]:
        """Decode a page of a list. UnreadableList if it is not one."""
        if self._plain or self.store is not None:
            return self._one_by_one(body)
        try:
            page = self._decode_page(body)
        except UNREADABLE:
            return self._one_by_one(body)
        return Page(map(_item_of, page.items or ()), page.metadata.version, page.metadata.next)

    def _one_by_one(self, body: bytes) -> Page[T]:
        """Decode the envelope first, so that an undecodable object affects only itself."""
        try:
            page, item = _list(body), self._item
        except UNREADABLE:
            page, item = self._sanitized(_list, body, "the list"), self._shortened
        return Page(map(item, page.items or ()), page.metadata.version, page.metadata.next)

    def line(self, line: bytes) -> Line[T]:
        """Decode a watch event. UnreadableList if it is not one; an event of unknown type has only the identity."""
        if self._plain or self.store is not None:
            return self._part_by_part(line)
        try:
            event = self._decode_event(line)
            if event.type in _CHANGES:
                return Line(event.type, _item_of(event.object))
        except UNREADABLE:
            pass
        return self._part_by_part(line)

    def _part_by_part(self, line: bytes) -> Line[T]:
        """Decode the envelope first, so that an undecodable object keeps its identity."""
        try:
            event, item = _event(line), self._item
        except UNREADABLE:
            event, item = self._sanitized(_event, line, "an event of the watch"), self._shortened
        if event.type == ERROR:
            status = self._sanitized(_status, bytes(event.object), "an event of the watch")
            return Line(ERROR, Item(Identity(), None), status.code, status.message or status.reason)
        if event.type in (ADDED, MODIFIED):
            return Line(event.type, item(event.object))
        return Line(event.type, Item(_identity(event.object), None))

    def _sanitized(self, decode: Callable[[bytes], R], text: bytes, what: str) -> R:
        """Decode an envelope after removing deep nesting from its objects. UnreadableList if that does not help."""
        try:
            return decode(sanitize(text))
        except UNREADABLE as problem:
            raise UnreadableList(f"{what} of {self._resource} cannot be read: {problem}") from None

    def _shortened(self, raw: msgspec.Raw) -> Item[T]:
        """Decode an object that was sanitized, or was in an envelope with one."""
        item = self._item(raw)
        if PLACEHOLDER in bytes(raw):
            self._refusals.report_shortened(self._resource, item.identity)
        return item

    def _item(self, raw: msgspec.Raw) -> Item[T]:
        item = self._decoded(raw)
        if self.store is not None:
            self.store(item, raw)
        return item

    def _decoded(self, raw: msgspec.Raw) -> Item[T]:
        try:
            decoded = self._decode(raw)
            if not isinstance(decoded, dict):
                return _item_of(decoded)
        except UNREADABLE as problem:
            if isinstance(problem, RecursionError) and PLACEHOLDER in (shorter := sanitize(bytes(raw))):
                return self._shortened(msgspec.Raw(shorter))
            identity = _identity(raw)
            self._refusals.report(self._resource, identity.namespace, identity.name, problem)
            return Item(identity, None)
        return self._plain_item(decoded)

    def _plain_item(self, decoded: dict[str, Any]) -> Item[Any]:
        metadata = decoded.get("metadata")
        identity = _identity_of(metadata) if isinstance(metadata, dict) else Identity()
        if not identity.name:
            self._refusals.report(self._resource, "", "", ValueError("it has no metadata.name"))
            return Item(identity, None)
        if not self._has_managed_fields:
            decoded["metadata"].pop("managedFields", None)
        return Item(identity, decoded)


def _item_of(decoded: Any) -> Item[Any]:
    meta = decoded.metadata
    return Item(Identity(meta.namespace, meta.name, meta.uid, meta.resource_version), decoded)


def _identity(raw: msgspec.Raw) -> Identity:
    """Return an object's identity as far as it can be decoded."""
    try:
        meta = _named(raw).metadata
    except UNREADABLE as problem:
        shorter = sanitize(bytes(raw)) if isinstance(problem, RecursionError) else b""
        return _identity(msgspec.Raw(shorter)) if PLACEHOLDER in shorter else Identity()
    return _identity_from(meta.namespace, meta.name, meta.uid, meta.version)


def _identity_of(metadata: dict[str, Any]) -> Identity:
    """Return the identity in the metadata of a dict."""
    return _identity_from(*map(metadata.get, ("namespace", "name", "uid", "resourceVersion")))


def _identity_from(*fields: Any) -> Identity:
    return Identity(*(value if isinstance(value, str) else "" for value in fields))
