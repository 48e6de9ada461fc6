"""Reflector of one resource: list it, watch it, and resume after the watch ends.

The first list requests the newest state (no resourceVersion) rather than any state ("0"): a list older than the
bindings of an earlier scheduler would show those pods as pending, and API servers answer both from their cache since
Kubernetes 1.31. After a disconnect the watch resumes from the last version; only if the server no longer has that
version (410), everything is listed again and the difference is emitted. Only UID and version of each object are stored
here. Watch events from before the start of the watch are ignored, because their objects were listed.

Watches are short-lived (`pyscheduler.kube.deadlines`): the server ends them, and one that does not end in time is dead,
even if its TCP connection is open. No response of a server can stop the reflector: one that it cannot handle leads to a
relist.

A resource that the server does not have counts as empty. One that RBAC forbids is retried until it can be listed,
unless it is optional: an API server without a built-in API group also responds 403, because no role grants access to
it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Final, Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import urlencode

import msgspec

from pyscheduler import logs
from pyscheduler.api import ApiError, ResourceKind
from pyscheduler.clock import Clock
from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.kube.decode import (
    ADDED,
    BOOKMARK,
    DELETED,
    ERROR,
    MODIFIED,
    Identity,
    Item,
    Lines,
    LineTooLong,
    ObjectDecoder,
    Page,
    UnreadableList,
)
from pyscheduler.kube.errors import TIMEOUT
from pyscheduler.kube.listing import ListReader
from pyscheduler.kube.numbers import natural
from pyscheduler.kube.outage import OutageLog
from pyscheduler.kube.paths import collection

T = TypeVar("T")
Key = tuple[str, str]
"""Namespace and name."""

MIN_BACKOFF: Final = 0.8
MAX_BACKOFF: Final = 30.0
"""Seconds between retries: doubled from the first to the longest, each with jitter."""
NOT_FOUND_RETRY: Final = 30.0
"""Seconds before a resource that the server does not have or forbids is tried again."""

_GONE = 410
_ABSENT, _FORBIDDEN = 404, 403
_TOO_MANY_REQUESTS, _SERVER_ERROR = 429, 500
_SHORT_WATCH = 1.0
"""Seconds. A watch that lived as long, or delivered an event, is resumed at once however it ended, as in client-go:
load balancers, restarts and the server's own timeout end watches, and a quiet watch gives no other sign of health.
"""
_RELIST_AFTER = 5
"""Consecutive failures after which the resource is relisted."""
_YIELD_EVERY, _YIELD_AFTER = 100, 0.005
"""Objects, and seconds, after which the event loop gets a turn: the server blocks on an unread page, and an object that
concerns many waiting pods takes milliseconds.
"""
_log = logs.get("reflector")


class Upsert(NamedTuple, Generic[T]):
    """An object that was added or modified."""

    object: T


class Deleted(NamedTuple, Generic[T]):
    """An object that was deleted, or no longer matches the selector.

    `object` is its last state, None if the deletion was found by a list or the state cannot be decoded.
    """

    namespace: str
    name: str
    uid: str
    object: T | None = None


Change = Upsert[T] | Deleted[T]


class Progress(NamedTuple):
    """resourceVersion up to which all changes were emitted; `is_list` if a list was, and not events of a watch."""

    version: str
    is_list: bool


class Watched(NamedTuple):
    """Resource to list and watch, in one namespace or ("") in all; `page` is the limit of one list call, 0 for none.

    Pages are large, because starting one costs the server more than hundreds of objects. They are bounded, because the
    server limits a call to a minute and some servers build the whole response in memory.
    """

    kind: ResourceKind
    field_selector: str = ""
    page: int = 10_000
    label_selector: str = ""
    namespace: str = ""
    version: str | None = None
    """resourceVersion to watch from without a list, as a process did before; None to list first."""


class ListerWatcher(Protocol):
    """Lists and watches of an API server as byte streams; implemented by `Connection`."""

    @property
    def deadlines(self) -> Deadlines:
        """Deadlines of the calls."""
        ...

    @property
    def watch_outages(self) -> OutageLog:
        """Failures of all lists and watches of this server."""
        ...

    def reading(self, path: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Read the response of a list. ApiError, also while it is read."""
        ...

    def watching(self, path: str, seconds: float) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a watch that the server should end after `seconds`. ApiError, also while it is read."""
        ...


class _KnownObject(msgspec.Struct, frozen=True, gc=False):
    """Identity and version of an emitted object; not tracked by garbage collection, as there may be a million."""

    uid: str
    version: str


class _LoopBudget:
    """Objects and seconds since the event loop last had a turn."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._objects, self._began = 0, clock.now()

    async def yield_if_long(self) -> None:
        """Count one emitted object and let the event loop run if the budget is used up."""
        self._objects += 1
        if self._objects >= _YIELD_EVERY or self._clock.now() - self._began >= _YIELD_AFTER:
            await asyncio.sleep(0)
            self._objects, self._began = 0, self._clock.now()


class Reflector(Generic[T]):
    """Calls `emit` with every change of one resource; `synced` is set after the first list was emitted.

    `on_progress` is called after each list, event of a watch and bookmark.
    """

    def __init__(
        self,
        connection: ListerWatcher,
        watched: Watched,
        decoder: ObjectDecoder[T],
        emit: Callable[[Change[T]], None],
        clock: Clock,
        rng: random.Random,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self.synced = asyncio.Event()
        self.problem = ""
        """Current reason that the resource is not watched; "" if it is."""
        self._watched_at = clock.now()
        """Time of the last proof that the watch works: a list, or the head or an event of a watch."""
        self._connection = connection
        self._watched = watched
        self._decoder = decoder
        self._emit = emit
        self._clock = clock
        self._log = logs.LimitedLog("reflector", clock.now)
        self._rng = rng
        self._known: dict[str, dict[str, _KnownObject]] = {}
        """Emitted objects that have not been deleted since, by namespace and name; no string combines the two."""
        self._version = watched.version
        self._on_progress = on_progress
        self._lacks_first_list = watched.version is not None
        """True until the first list: objects that are not stored may exist."""
        self._watched_from = 0
        """Numeric version at which the watch began, until a later event; 0 if it is not a number."""
        self._failures = 0
        self._is_gone = False
        """True if the last failure was that the server no longer has the version."""
        self._ended_early = False
        """True if the last failure was a watch that ended as soon as it began."""
        self._scope = asyncio.timeout(None)
        """Scope of the running list or watch; only `list_again` ends it."""
        self._listing_done = asyncio.Event()

    @property
    def kind(self) -> ResourceKind:
        """The resource kind."""
        return self._watched.kind

    @property
    def name(self) -> str:
        """Resource name, qualified as by kubectl: several groups have podgroups, some in several versions."""
        kind = self._watched.kind
        return f"{kind.plural}.{kind.version}.{kind.group}" if kind.group else kind.plural

    def seconds_since_watch(self, now: float) -> float:
        """Return the seconds since the watch last proved to work."""
        return now - self._watched_at

    def __len__(self) -> int:
        """Return the number of stored objects."""
        return sum(map(len, self._known.values()))

    async def run(self) -> None:
        """List and watch the resource until cancelled."""
        try:
            while True:
                self._scope = asyncio.timeout(None)
                try:
                    async with self._scope:
                        await self._follow()
                except TimeoutError:
                    self._version = None
        finally:
            self._connection.watch_outages.forget(self)

    async def list_again(self) -> None:
        """Interrupt the watch and list everything again; returns when that is done. Call it only during `run`.

        Unchanged objects are decoded again, but not emitted.
        """
        self._listing_done.clear()
        self.interrupt()
        await self._listing_done.wait()

    def interrupt(self) -> None:
        """End the running list or watch, and list everything again. Call it only during `run`."""
        self._scope.reschedule(asyncio.get_running_loop().time())

    async def _follow(self) -> None:
        """List if there is no version to resume from, then watch; again and again."""
        while True:
            try:
                if self._version is None:
                    self._version = await self._list()
                    self._mark_synced()
                    if self._on_progress is not None:
                        self._on_progress(Progress(self._version, is_list=True))
                await self._watch(self._version)
            except (ApiError, UnreadableList, LineTooLong) as problem:
                await self._clock.sleep(await self._recover(problem))
            except Exception as problem:
                _log.crash("Following a resource failed, relisting", problem, resource=self.name)
                await self._clock.sleep(await self._recover(problem))

    def _mark_synced(self) -> None:
        self._lacks_first_list = False
        self._watched_at = self._clock.now()
        _log.info("Listed", v=2, resource=self.name, objects=len(self), version=self._version)
        self._mark_working()
        self.synced.set()
        self._listing_done.set()

    def _mark_working(self) -> None:
        self.problem = ""
        self._connection.watch_outages.succeed(self)

    def _mark_healthy(self) -> None:
        """Forget the failures before an event, or before a watch that lived: the next problem is a new one."""
        self._failures, self._is_gone, self._ended_early = 0, False, False
        self._mark_working()

    def _known_keys(self) -> list[Key]:
        """Return the keys of all stored objects, in the order of addition within a namespace."""
        return [(namespace, name) for namespace, objects in self._known.items() for name in objects]

    async def _list(self) -> str:
        """Emit the difference between the server's and the stored objects; return the version of the list."""
        missing = dict.fromkeys(self._known_keys())
        limit, page = self._watched.page, await self._page(self._watched.page, "", missing)
        while page.next:
            try:
                page = await self._page(limit, page.next, missing)
            except ApiError as problem:
                if problem.status != _GONE:
                    raise
                # The continue token has expired: start over without paging, which needs no token.
                missing = dict.fromkeys(self._known_keys())
                limit, page = 0, await self._page(0, "", missing)
        await self._forget_all(missing)
        return page.version

    async def _page(self, limit: int, token: str, missing: dict[Key, None]) -> Page[T]:
        """Emit the new objects of a page while it arrives; remove all from `missing`."""
        reader = ListReader(self._decoder)
        async with self._connection.reading(self._list_path(limit, token)) as chunks:
            async for chunk in chunks:
                await self._handle_list(reader.feed(chunk), missing)
        page = reader.rest()
        await self._handle_list(page.items, missing)
        return page

    async def _handle_list(self, items: Iterable[Item[T]], missing: dict[Key, None]) -> None:
        budget = _LoopBudget(self._clock)
        for item in items:
            missing.pop(item.identity[:2], None)
            self._upsert(item)
            await budget.yield_if_long()

    async def _watch(self, version: str) -> None:
        """Emit changes after `version` until the watch ends. ApiError if it was rejected or ended at once."""
        seconds = self._connection.deadlines.watch_seconds(self._rng)
        self._watched_from = natural(version) or 0
        lived, opened, how = False, False, "the watch ended as soon as it began"
        try:
            async with self._connection.watching(self._watch_path(version, seconds), seconds) as chunks:
                opened, began = True, self._clock.now()
                self._watched_at = began
                if not self._ended_early:
                    self._connection.watch_outages.succeed(self)
                try:
                    await self._read_watch(chunks)
                finally:
                    lived = self._clock.now() - began >= _SHORT_WATCH
                    if lived:
                        self._mark_healthy()
        except ApiError as problem:
            if problem.status:
                raise
            how = str(problem)
            if lived and problem.reason == TIMEOUT:
                _log.warning("Watch did not end, resuming", resource=self.name, version=self._version, seconds=seconds)
        if not lived and self._version == version:
            self._ended_early = opened
            raise ApiError(0, "ShortWatch", how)

    async def _read_watch(self, chunks: AsyncIterator[bytes]) -> None:
        """Emit the events of a watch until it ends."""
        lines = Lines()
        async for chunk in chunks:
            budget = _LoopBudget(self._clock)
            for line in lines.feed(chunk):
                self._handle_event(line)
                await budget.yield_if_long()

    def _handle_event(self, data: bytes) -> None:
        line = self._decoder.line(data)
        identity = line.item.identity
        if line.type == ERROR:
            raise ApiError(line.code, "WatchError", line.message)
        if self._watched_from and line.type != BOOKMARK:
            if 0 < (natural(identity.version) or 0) <= self._watched_from:
                return  # from before the start of the watch, when it was listed: versions are ordered (KEP-5504)
            self._watched_from = 0
        if line.type in (ADDED, MODIFIED):
            self._upsert(line.item)
        elif line.type == DELETED:
            self._emit_deleted(identity[:2], identity.uid, line.item.object)
        elif line.type != BOOKMARK:
            self._log.warning("Ignored a watch event of unknown type", resource=self.name, type=line.type)
            return
        if identity.version:
            self._version = identity.version
        self._watched_at = self._clock.now()
        if self._failures:
            self._mark_healthy()
        if self._on_progress is not None and self._version is not None:
            self._on_progress(Progress(self._version, is_list=False))

    def _upsert(self, item: Item[T]) -> None:
        identity = item.identity
        namespace, name, uid, version = identity
        known, current = self._known.get(namespace, {}).get(name), _KnownObject(uid, version)
        if known is not None and known.uid and known.uid != uid and uid:
            self._emit_deleted(identity[:2])
        if item.object is None or (known == current and version):
            return
        self._known.setdefault(namespace, {})[name] = current
        self._emit(Upsert(item.object))

    def _emit_deleted(self, key: Key, uid: str = "", last: T | None = None) -> None:
        """Emit the deletion of an object if it was emitted before, or may have been before the start."""
        namespace, name = key
        objects = self._known.get(namespace, {})
        known = objects.pop(name, None)
        if known is not None and not objects:
            del self._known[namespace]
        if known is not None or self._lacks_first_list:
            self._emit(Deleted(*key, uid or (known.uid if known else ""), last))

    async def _forget_all(self, keys: Iterable[Key]) -> None:
        """Emit the deletion of objects; a relist may find most of 100,000 pods deleted."""
        budget = _LoopBudget(self._clock)
        for key in keys:
            self._emit_deleted(key)
            await budget.yield_if_long()

    async def _recover(self, problem: Exception) -> float:
        """Choose between resuming and relisting after a problem; return the seconds to wait before the retry."""
        status = problem.status if isinstance(problem, ApiError) else None
        if status == _ABSENT:
            return await self._handle_absent()
        if status == _FORBIDDEN and self._watched.kind.optional and not self._known:
            return self._handle_forbidden(problem)
        self._failures += 1
        if status in (None, _GONE) or self._failures >= _RELIST_AFTER:
            self._version = None
        self.problem = str(problem)
        was_gone, self._is_gone = self._is_gone, status == _GONE
        if self._is_gone and not was_gone:
            # After an outage, too: the server works again, so its objects need not wait for the end of the backoff.
            _log.info("Version is no longer available, relisting", v=2, resource=self.name, err=str(problem))
            return 0.0
        pause = self._pause()
        self._log_failure(problem, status, pause)
        return pause

    def _log_failure(self, problem: Exception, status: int | None, pause: float) -> None:
        outages = self._connection.watch_outages
        is_outage = status is not None and (status == 0 or status == _TOO_MANY_REQUESTS or status >= _SERVER_ERROR)
        message, unwatched = "Resource is not watched, retrying", round(self.seconds_since_watch(self._clock.now()))
        fields = {"resource": self.name, "after": round(pause, 1), "unwatched": unwatched}
        if is_outage or (status is not None and outages.has_failed(self)):
            outages.fail(self, problem, resource=self.name)
            _log.info(message, v=2, err=self.problem, **fields)
        else:
            _log.warning(message, problem, **fields)

    async def _handle_absent(self) -> float:
        """Treat a resource that the server does not have as empty."""
        if not self.synced.is_set() or self._known:
            _log.info("Server does not have this resource, retrying periodically", resource=self.name)
        await self._forget_all(self._known_keys())
        self._version, self._failures = None, 0
        self._watched_at = self._clock.now()
        self._mark_working()
        self.synced.set()
        return NOT_FOUND_RETRY

    def _handle_forbidden(self, problem: Exception) -> float:
        """Mark an optional resource that RBAC forbids as synced; stored objects stay."""
        if not self.problem:
            _log.warning("Optional resource is forbidden, continuing without it", resource=self.name, err=str(problem))
        self._connection.watch_outages.succeed(self)
        self._version, self._failures, self.problem = None, 0, str(problem)
        self._watched_at = self._clock.now()
        self.synced.set()
        return NOT_FOUND_RETRY

    def _pause(self) -> float:
        longest = min(MAX_BACKOFF, MIN_BACKOFF * 2.0 ** min(self._failures - 1, 10))
        return longest * self._rng.uniform(0.5, 1.0)

    def _list_path(self, limit: int, token: str) -> str:
        return self._path({"limit": limit or "", "continue": token})

    def _watch_path(self, version: str, seconds: int) -> str:
        return self._path(
            {"watch": 1, "allowWatchBookmarks": "true", "resourceVersion": version, "timeoutSeconds": seconds}
        )

    def _path(self, query: dict[str, object]) -> str:
        watched = self._watched
        selectors = {"fieldSelector": watched.field_selector, "labelSelector": watched.label_selector}
        parameters = {k: v for k, v in {**selectors, **query}.items() if v != ""}
        return f"{collection(watched.kind, watched.namespace)}?{urlencode(parameters)}"


__all__ = [
    "MAX_BACKOFF",
    "NOT_FOUND_RETRY",
    "Change",
    "Deleted",
    "Identity",
    "ListerWatcher",
    "Progress",
    "Reflector",
    "Upsert",
    "Watched",
]
