"""The state in the cluster: records in ConfigMaps, a Lease that says whose they are.

For backends without a disk of their own. Objects, all named after the state: `NAME` (a Lease, and a ConfigMap with the
number of shards and the resource_version) and `NAME-0`, `NAME-1` … with the records.

Every write carries the resourceVersion that was last seen, and a new owner writes its name into every object before it
reads a record: what a former owner still has on the way is then refused. Shards are counted in `NAME` before they are
made, and a new owner makes those that are missing, so that nobody can add one behind its back.

Writes are the scarce thing. At most `WriteLimits.writes_per_second` objects are written, one for all records of a commit that
share a shard; a commit takes its time, and what changes meanwhile is in the next one. The resource_version is written now and then
and when the state is closed, since an older one costs only that some events are seen again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from pyscheduler.backend.client import ClusterProblem
from pyscheduler.backend.limiter import CallLimiter
from pyscheduler.backend.state import SavedState, StateLost, StateProblem
from pyscheduler.backend.state.lease import TERMS, StateLease
from pyscheduler.backend.state.objects import CONFIG_MAPS, CONFLICT, ObjectsApi, get_or_none, is_ambiguous
from pyscheduler.backend.state.shards import LIMITS, ShardLimits, Shards
from pyscheduler.backend.task import Json, TaskRecord
from pyscheduler.core.leader_election import LeaseTimings


class WriteLimits(NamedTuple):
    """How much is asked of the API server."""

    writes_per_second: float = 10.0
    burst: int = 20
    """Writes that may go at once after a pause."""
    max_in_flight: int = 4
    place_seconds: float = 5.0
    """How old the resource_version may become before it is written without need."""


WRITE_LIMITS: Final = WriteLimits()
_OWNER: Final = "pyscheduler.io/owner"
_LABELS: Final = {"app.kubernetes.io/managed-by": "pyscheduler", "app.kubernetes.io/component": "task-state"}
_SHARDS, _RESOURCE_VERSION, _FORM = "shards", "place", "form"
_FORM_NOW: Final = "1"
_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
_CLOSING: Final = 10.0
"""Seconds in which the last writes must be done."""
_FORBIDDEN: Final = 403
_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(TaskRecord)


class ClusterState:
    """A StateStore in a namespace. `wall` tells seconds since 1970."""

    def __init__(
        self,
        objects: ObjectsApi,
        name: str,
        *,
        limits: ShardLimits = LIMITS,
        write_limits: WriteLimits = WRITE_LIMITS,
        terms: LeaseTimings = TERMS,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._objects, self._name, self._limits, self._write_limits = objects, name, limits, write_limits
        self._owner = StateLease(objects, name, wall, terms)
        self._limiter = CallLimiter(write_limits.writes_per_second, write_limits.burst, write_limits.max_in_flight)
        self._open = False
        self._lost: StateLost | None = None
        self._turn = asyncio.Lock()
        self._shards = Shards(limits)
        self._written: dict[str, Json] = {}
        """Each ConfigMap as the server has it, by name."""
        self._dirty: set[int] = set()
        """The shards of which the server has an older form, or may have."""
        self._counted = 0
        """How many shards the server knows of."""
        self._resource_version = self._resource_version_written = ""
        self._resource_version_written_at = 0.0

    async def open(self) -> SavedState:
        """Take the state for this process, and read it. StateInUse, StateProblem."""
        await self._owner.acquire()
        try:
            self._shards = Shards(self._limits)
            self._written.clear()
            self._dirty.clear()
            await self._fence()
            records = self._records()
        except BaseException:
            await self._owner.release()
            raise
        self._open = True
        return SavedState({record.id: record for record in records}, self._resource_version or None)

    async def commit(
        self, changed: Sequence[TaskRecord], resource_version: str | None = None, forgotten: Sequence[str] = ()
    ) -> None:
        """Keep these. StateLost once the state is another's; StateProblem if it could not be done, or has no room.

        What has no room is not kept at all; of what the server refused a part may have been.
        """
        if not self._open:
            raise StateProblem(f"the state {self._name} is not open")
        async with self._turn:
            self._check()
            self._dirty |= self._apply(changed, forgotten)
            self._resource_version = self._resource_version if resource_version is None else resource_version
            await self._write_all(
                with_resource_version=_now() >= self._resource_version_written_at + self._write_limits.place_seconds
            )

    async def close(self) -> None:
        """Write what is left to be written, and give the state back."""
        if not self._open:
            return
        self._open = False
        try:
            async with asyncio.timeout(_CLOSING), self._turn:
                self._check()
                await self._write_all(with_resource_version=True)
        except (StateProblem, TimeoutError):
            pass  # all that a commit has promised is there; the resource_version is older
        finally:
            await self._owner.release()

    def _check(self) -> None:
        if self._lost is not None:
            raise self._lost
        self._owner.check()

    def _apply(self, changed: Iterable[TaskRecord], forgotten: Iterable[str]) -> set[int]:
        """Take the records in; the shards that are to be written. StateProblem, with nothing taken in."""
        texts = [(record.id, _encoder.encode(record).decode()) for record in changed]
        touched: set[int] = set()
        before: list[tuple[str, str | None]] = []
        try:
            for id, text in texts:
                before.append((id, self._shards.text(id)))
                touched.add(self._shards.put(id, text))
        except StateProblem:
            for id, was in reversed(before):
                if was is None:
                    self._shards.drop(id)
                else:
                    self._shards.put(id, was)
            raise
        dropped = (self._shards.drop(id) for id in forgotten)
        return touched | {number for number in dropped if number is not None}

    async def _write_all(self, with_resource_version: bool) -> None:
        """Write the shards that have changed, then the resource_version: never before the records that it goes with."""
        if len(self._shards.texts) > self._counted:
            await self._write_head(self._resource_version_written)
        await self._each(sorted(self._dirty), self._write_shard)
        if with_resource_version and self._resource_version != self._resource_version_written:
            await self._write_head(self._resource_version)

    async def _write_shard(self, number: int) -> None:
        await self._write(self._shard(number), self._shards.texts[number])
        self._dirty.discard(number)

    async def _write_head(self, resource_version: str) -> None:
        count = len(self._shards.texts)
        await self._write(self._name, {_FORM: _FORM_NOW, _SHARDS: str(count), _RESOURCE_VERSION: resource_version})
        self._counted, self._resource_version_written, self._resource_version_written_at = (
            count,
            resource_version,
            _now(),
        )

    async def _fence(self) -> None:
        """Write our name into every object, so that no write of a former owner is accepted any more."""
        head = await self._claim(self._name, {_FORM: _FORM_NOW, _SHARDS: "0", _RESOURCE_VERSION: ""})
        if head.get(_FORM) != _FORM_NOW:
            raise StateProblem(
                f"ConfigMap {self._name} is of another release of pyscheduler: use that, or another name"
            )
        self._counted = _count(self._name, head)
        self._resource_version = self._resource_version_written = head.get(_RESOURCE_VERSION, "")
        self._resource_version_written_at = _now()
        texts: dict[int, dict[str, str]] = {}

        async def take(number: int) -> None:
            texts[number] = await self._claim(self._shard(number), {})

        await self._each(range(self._counted), take)
        for number in range(self._counted):
            self._shards.add(texts[number])

    async def _claim(self, name: str, fresh: dict[str, str]) -> dict[str, str]:
        """The data of a ConfigMap with our name in it, made with `fresh` if it is not there."""
        pause = _PAUSE
        while True:
            kept = await self._read(name)
            if kept is not None and not _is_ours(kept):
                raise StateProblem(f"ConfigMap {name} is there and is not ours: give the state another name")
            data = fresh if kept is None else kept.get("data") or {}
            # A former owner may write between the two calls: then it is read again.
            if await self._try_write(name, kept, data):
                return data
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _write(self, name: str, data: dict[str, str]) -> None:
        """Make the ConfigMap say this. StateLost if another has written it, StateProblem if it is refused."""
        data, pause = dict(data), _PAUSE
        while not await self._try_write(name, self._written.get(name), data):
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            if await self._was_written(name, data):
                return

    async def _try_write(self, name: str, known: Json | None, data: dict[str, str]) -> bool:
        """Replace what is known, or make what is not there; False if that was not done, or nobody knows."""
        metadata: Json = {"name": name, "labels": _LABELS, "annotations": {_OWNER: self._owner.identity}}
        body: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        try:
            async with self._limiter.acquire():
                self._owner.check()
                if known is None:
                    self._written[name] = await self._objects.create_object(CONFIG_MAPS, body)
                else:
                    metadata["resourceVersion"] = _version(known)
                    self._written[name] = await self._objects.replace_object(CONFIG_MAPS, name, body)
        except ClusterProblem as problem:
            if problem.status == CONFLICT or is_ambiguous(problem):
                return False
            raise StateProblem(_error_message(name, problem)) from None
        return True

    async def _was_written(self, name: str, data: dict[str, str]) -> bool:
        """Whether a write whose answer was lost was carried out. StateLost if somebody else has written."""
        kept = await self._read(name)
        if _version(kept) == _version(self._written.get(name)):
            return False
        if kept is None or _owner(kept) != self._owner.identity:
            who = "deleted" if kept is None else f"written by {_owner(kept) or 'somebody else'}"
            self._lost = StateLost(f"ConfigMap {name} was {who}; nothing is written any more")
            raise self._lost
        self._written[name] = kept  # an earlier write of ours that nobody waited for, or this one
        return (kept.get("data") or {}) == data

    async def _read(self, name: str) -> Json | None:
        """A ConfigMap. StateLost if the Lease runs out before there is an answer, StateProblem if it is refused."""
        pause = _PAUSE
        while True:
            self._owner.check()
            try:
                return await get_or_none(self._objects, CONFIG_MAPS, name)
            except ClusterProblem as problem:
                if not is_ambiguous(problem):
                    raise StateProblem(_error_message(name, problem)) from None
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _each(self, numbers: Iterable[int], work: Callable[[int], Awaitable[None]]) -> None:
        """A few at a time; the first problem is raised once none is under way."""
        waiting = iter(numbers)

        async def some() -> None:
            for number in waiting:
                await work(number)

        for ended in await asyncio.gather(
            *(some() for _ in range(self._write_limits.max_in_flight)), return_exceptions=True
        ):
            if isinstance(ended, BaseException):
                raise ended

    def _shard(self, number: int) -> str:
        return f"{self._name}-{number}"

    def _records(self) -> list[TaskRecord]:
        return [
            _record(self._shard(number), key, text)
            for number, texts in enumerate(self._shards.texts)
            for key, text in texts.items()
        ]


def _now() -> float:
    return asyncio.get_running_loop().time()


def _version(kept: Json | None) -> str:
    return "" if kept is None else str(kept["metadata"]["resourceVersion"])


def _owner(kept: Json | None) -> str:
    return "" if kept is None else str((kept["metadata"].get("annotations") or {}).get(_OWNER, ""))


def _is_ours(kept: Json) -> bool:
    return _LABELS.items() <= (kept["metadata"].get("labels") or {}).items()


def _count(name: str, head: Json) -> int:
    try:
        return int(head[_SHARDS])
    except (KeyError, ValueError):
        raise StateProblem(f"ConfigMap {name}: {_SHARDS} is no number: {head.get(_SHARDS)!r}") from None


def _record(name: str, key: str, text: str) -> TaskRecord:
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError as problem:
        raise StateProblem(f"ConfigMap {name}: the record under {key} cannot be read: {problem}") from None


def _error_message(name: str, problem: ClusterProblem) -> str:
    if problem.status == _FORBIDDEN:
        return f"ConfigMap {name}: {problem}; the rights that are needed are in manifests/examples/tasks/"
    return f"ConfigMap {name}: {problem}"
