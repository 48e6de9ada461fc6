"""From the bytes of lists and watches straight to objects, one at a time.

An object that cannot be read costs only itself: whoever asks gets its name where that much can be read, the
`Refusals` log and count it, and the loop goes on. One that is nested too deep for us is read without its depths: a pod
that runs takes its place on the node, whatever else its owner has written into it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, NamedTuple, TypeVar, get_origin

import msgspec

from pyscheduler.api import NodeObject, PodObject
from pyscheduler.shell import logs
from pyscheduler.shell.kube.sanitize import PLACEHOLDER, sanitize

T = TypeVar("T", bound=PodObject | NodeObject | dict[str, Any])
R = TypeVar("R")

ADDED, MODIFIED, DELETED, BOOKMARK, ERROR = "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"
_CHANGES = (ADDED, MODIFIED, DELETED)
UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What a decoder may raise, whatever it is given."""
_REMEMBERED = 1000
_MOST_TEXT = 200
_SKIPPED = "Skipped an object that cannot be read"
_SHORTENED = "Read an object without what is nested too deep in it"
_log = logs.get("decode")


class UnreadableList(ValueError):
    """The envelope of a list or watch event is broken: nothing in it can be trusted."""


class Identity(NamedTuple):
    """Which object at which version."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    version: str = ""


class Item(NamedTuple, Generic[T]):
    """One object off the wire; `object` is None where it could not be read (or was not asked for)."""

    identity: Identity
    object: T | None


class Line(NamedTuple, Generic[T]):
    """One event of a watch: its type, its object, and for ERROR the code and message of the Status."""

    type: str
    item: Item[T]
    code: int = 0
    message: str = ""


class Page(NamedTuple, Generic[T]):
    """A page of a list; the items are decoded as they are iterated over. `next` is "" on the last one."""

    items: Iterator[Item[T]]
    version: str
    next: str


class Refusals:
    """Where objects that cannot be read are reported: logged once for each problem, counted every time."""

    def __init__(self, count: Callable[[str], None] = lambda _: None) -> None:
        self._count = count
        self._last: dict[tuple[str, str, str], str] = {}

    def report(self, resource: str, namespace: str, name: str, problem: BaseException) -> None:
        """An object of `resource` (plural) was skipped. Also for pods whose quantities or selectors make no sense."""
        self._tell(_SKIPPED, resource, namespace, name, problem)

    def report_shortened(self, resource: str, identity: Identity) -> None:
        """An object was read, but for what is nested too deep."""
        problem = ValueError("it has more levels than anything of Kubernetes")
        self._tell(_SHORTENED, resource, identity.namespace, identity.name, problem)

    def _tell(self, message: str, resource: str, namespace: str, name: str, problem: BaseException) -> None:
        self._count(resource)
        key, text = (resource, namespace, name), str(problem)[:_MOST_TEXT]
        if self._last.get(key) == text:
            return
        if len(self._last) >= _REMEMBERED:
            self._last.clear()
        self._last[key] = text
        where = f"{namespace}/{name}" if namespace else name
        _log.warning(message, problem, resource=resource, object=where or "unknown")


class _ListMeta(msgspec.Struct):
    version: str = msgspec.field(name="resourceVersion", default="")
    next: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
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
_event = msgspec.json.Decoder(_Event).decode
_named = msgspec.json.Decoder(_Named).decode
_status = msgspec.json.Decoder(_Status).decode


class ObjectDecoder(Generic[T]):
    """Reads lists and watches of one resource into objects of `type`: PodObject, NodeObject or dict."""

    def __init__(self, resource: str, type: type[T], refusals: Refusals) -> None:
        self._resource = resource
        self._decode: Callable[[msgspec.Raw], T] = msgspec.json.Decoder(type).decode
        event = msgspec.defstruct("Event", [("type", str), ("object", type)])
        self._decode_event: Callable[[bytes], Any] = msgspec.json.Decoder(event).decode
        items: Any = list[type] | None  # type: ignore[valid-type]
        page = msgspec.defstruct("List", [("metadata", _ListMeta), ("items", items, None)])
        self._decode_page: Callable[[bytes], Any] = msgspec.json.Decoder(page).decode
        self._plain = get_origin(type) is dict
        self._refusals = refusals

    def page(self, body: bytes) -> Page[T]:
        """A page of a list. UnreadableList if it is not one."""
        if self._plain:
            return self._one_by_one(body)
        try:
            page = self._decode_page(body)
        except UNREADABLE:
            return self._one_by_one(body)
        return Page(map(_item_of, page.items or ()), page.metadata.version, page.metadata.next)

    def _one_by_one(self, body: bytes) -> Page[T]:
        """The envelope first, so that one object which cannot be read costs only itself."""
        try:
            page, item = _list(body), self._item
        except UNREADABLE:
            page, item = self._sanitized(_list, body, "the list"), self._shortened
        return Page(map(item, page.items or ()), page.metadata.version, page.metadata.next)

    def line(self, line: bytes) -> Line[T]:
        """An event of a watch. UnreadableList if it is not one; an event of unknown type comes with its name only."""
        try:
            event = self._decode_event(line)
            if event.type in _CHANGES:
                return Line(event.type, _item_of(event.object))
        except (*UNREADABLE, AttributeError):
            pass  # a plain object, or one that takes a closer look
        return self._part_by_part(line)

    def _part_by_part(self, line: bytes) -> Line[T]:
        """The envelope first, so that an object which cannot be read has a name at least."""
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
        """An envelope that one of the objects in it makes unreadable. UnreadableList if it is not only that."""
        try:
            return decode(sanitize(text))
        except UNREADABLE as problem:
            raise UnreadableList(f"{what} of {self._resource} cannot be read: {problem}") from None

    def _shortened(self, raw: msgspec.Raw) -> Item[T]:
        """An object that was sanitize, or stood beside one that was."""
        item = self._item(raw)
        if PLACEHOLDER in bytes(raw):
            self._refusals.report_shortened(self._resource, item.identity)
        return item

    def _item(self, raw: msgspec.Raw) -> Item[T]:
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
        return self._plain_item(raw, decoded)

    def _plain_item(self, raw: msgspec.Raw, decoded: T) -> Item[T]:
        identity = _identity(raw)
        if not identity.name:
            self._refusals.report(self._resource, "", "", ValueError("it has no metadata.name"))
            return Item(identity, None)
        assert isinstance(decoded, dict)
        decoded["metadata"].pop("managedFields", None)
        return Item(identity, decoded)


def _item_of(decoded: Any) -> Item[Any]:
    meta = decoded.metadata
    return Item(Identity(meta.namespace, meta.name, meta.uid, meta.resource_version), decoded)


def _identity(raw: msgspec.Raw) -> Identity:
    """As much of an object's name as can be read."""
    try:
        meta = _named(raw).metadata
    except UNREADABLE as problem:
        shorter = sanitize(bytes(raw)) if isinstance(problem, RecursionError) else b""
        return _identity(msgspec.Raw(shorter)) if PLACEHOLDER in shorter else Identity()
    fields = (meta.namespace, meta.name, meta.uid, meta.version)
    return Identity(*(value if isinstance(value, str) else "" for value in fields))
