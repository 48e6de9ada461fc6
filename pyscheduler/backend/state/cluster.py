"""State in the cluster, for backends without a disk: records in ConfigMaps, their owner in a Lease.

Objects, all named after the state: `NAME` (a Lease, and a ConfigMap with the number of shards and the resourceVersion)
and the ConfigMaps `NAME-0`, `NAME-1` … with the records.

Fencing: each write carries the last resourceVersion of its object, and a new owner writes its identity into every
object before it reads a record, so late writes of a former owner fail with a conflict. Shards are counted in `NAME`
before they are created, and a new owner creates missing ones, so a former owner cannot add a shard unnoticed.

Writes are expensive for etcd. At most `WriteLimits.writes_per_second` objects are written; the records of a commit
that share a shard take one write, and changes during a commit go into the next one. The resourceVersion is written
every few seconds and at close: an older one only means that some events are handled again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from pyscheduler.api import ApiError
from pyscheduler.backend.state import SavedState, StateIdentity, StateLost, StateProblem
from pyscheduler.backend.state.lease import TERMS, StateLease
from pyscheduler.backend.state.objects import CONFIG_MAPS, CONFLICT, ObjectsApi, get_or_none, is_ambiguous
from pyscheduler.backend.state.shards import LIMITS, ShardLimits, Shards
from pyscheduler.backend.task import Json, TaskRecord
from pyscheduler.clock import LoopClock
from pyscheduler.core.leader_election import LeaseTimings
from pyscheduler.kube.limiter import Limiter


class WriteLimits(NamedTuple):
    """Limits of the writes to the API server."""

    writes_per_second: float = 10.0
    burst: int = 20
    """Writes allowed at once after a pause."""
    max_in_flight: int = 4
    place_seconds: float = 5.0
    """Age of the saved resourceVersion in seconds after which it is written again."""


WRITE_LIMITS: Final = WriteLimits()
_OWNER: Final = "pyscheduler.io/owner"
_LABELS: Final = {"app.kubernetes.io/managed-by": "pyscheduler", "app.kubernetes.io/component": "task-state"}
_SHARDS, _RESOURCE_VERSION, _FORM, _IDENTITY = "shards", "place", "form", "identity"
_FORM_NOW: Final = "1"
_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
_CLOSING: Final = 10.0
"""Time limit of the last writes in seconds."""
_FORBIDDEN: Final = 403
_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(TaskRecord)


class ClusterTaskState:
    """StateStore in a namespace. `wall` returns seconds since the epoch."""

    _limiter: Limiter

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
        self._open = False
        self._lost: StateLost | None = None
        self._lock = asyncio.Lock()
        self._shards = Shards(limits)
        self._written: dict[str, Json] = {}
        """Last ConfigMaps returned by the server, by name."""
        self._dirty: set[int] = set()
        """Shards that the server has, or may have, in an older form."""
        self._counted = 0
        """Number of shards recorded on the server."""
        self._identity: StateIdentity | None = None
        self._resource_version = self._resource_version_written = ""
        self._resource_version_written_at = 0.0

    async def open(self) -> SavedState:
        """Acquire the Lease and read the records. StateInUse, StateProblem."""
        await self._owner.acquire()
        self._limiter = Limiter(self._write_limits.writes_per_second, self._write_limits.burst, LoopClock())
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
        by_id = {record.id: record for record in records}
        return SavedState(by_id, self._resource_version or None, self._identity)

    def __str__(self) -> str:
        return f"ConfigMap {self._name}"

    async def bind(self, identity: StateIdentity) -> None:
        async with self._lock:
            self._check()
            self._identity = identity
            await self._write_head(self._resource_version_written)

    async def check(self) -> None:
        try:
            self._check()
        except StateLost:
            raise
        except StateProblem:
            return  # the Lease has expired, but can still be renewed

    async def commit(
        self, changed: Sequence[TaskRecord], resource_version: str | None = None, forgotten: Sequence[str] = ()
    ) -> None:
        """Write the records. StateLost if another process has the state; StateProblem if a write fails or lacks room.

        Without room for all records nothing is written; after a failed write a part may be durable.
        """
        if not self._open:
            raise StateProblem(f"the state {self._name} is not open")
        async with self._lock:
            self._check()
            self._dirty |= self._apply(changed, forgotten)
            self._resource_version = self._resource_version if resource_version is None else resource_version
            await self._write_all(
                with_resource_version=_now() >= self._resource_version_written_at + self._write_limits.place_seconds
            )

    async def close(self) -> None:
        """Write pending changes and release the Lease."""
        if not self._open:
            return
        self._open = False
        try:
            async with asyncio.timeout(_CLOSING), self._lock:
                self._check()
                await self._write_all(with_resource_version=True)
        except (StateProblem, TimeoutError):
            pass  # all committed records are durable; only the resourceVersion is older
        finally:
            await self._owner.release()

    def _check(self) -> None:
        if self._lost is not None:
            raise self._lost
        self._owner.check()

    def _apply(self, changed: Iterable[TaskRecord], forgotten: Iterable[str]) -> set[int]:
        """Apply the changes and return the shards to write. StateProblem, with nothing applied, if there is no room."""
        texts = [(record.id, _encoder.encode(record).decode()) for record in changed]
        touched: set[int] = set()
        before: list[tuple[str, str | None]] = []
        try:
            for id, text in texts:
                before.append((id, self._shards.text(id)))
                touched.add(self._shards.put(id, text))
        except StateProblem:
            for id, old_text in reversed(before):
                if old_text is None:
                    self._shards.drop(id)
                else:
                    self._shards.put(id, old_text)
            raise
        dropped = (self._shards.drop(id) for id in forgotten)
        return touched | {number for number in dropped if number is not None}

    async def _write_all(self, with_resource_version: bool) -> None:
        """Write the changed shards, then the resourceVersion: never before the records of its commit."""
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
        head = {_FORM: _FORM_NOW, _SHARDS: str(count), _RESOURCE_VERSION: resource_version}
        if self._identity is not None:
            head[_IDENTITY] = _encoder.encode(self._identity).decode()
        await self._write(self._name, head)
        self._counted, self._resource_version_written, self._resource_version_written_at = (
            count,
            resource_version,
            _now(),
        )

    async def _fence(self) -> None:
        """Write our identity into every object, so that late writes of a former owner are rejected."""
        head = await self._claim(self._name, {_FORM: _FORM_NOW, _SHARDS: "0", _RESOURCE_VERSION: ""})
        if head.get(_FORM) != _FORM_NOW:
            raise StateProblem(
                f"ConfigMap {self._name} was written by another release of pyscheduler: use that, or another name"
            )
        self._counted = _count(self._name, head)
        self._identity = _identity(self._name, head.get(_IDENTITY, ""))
        self._resource_version = self._resource_version_written = head.get(_RESOURCE_VERSION, "")
        self._resource_version_written_at = _now()
        texts: dict[int, dict[str, str]] = {}

        async def claim_shard(number: int) -> None:
            texts[number] = await self._claim(self._shard(number), {})

        await self._each(range(self._counted), claim_shard)
        for number in range(self._counted):
            self._shards.add(texts[number])

    async def _claim(self, name: str, fresh: dict[str, str]) -> dict[str, str]:
        """Write our identity into a ConfigMap and return its data; create it with `fresh` if it does not exist."""
        pause = _PAUSE
        while True:
            current = await self._read(name)
            if current is not None and not _is_ours(current):
                raise StateProblem(f"ConfigMap {name} exists and holds no task state: use another name for the state")
            data = fresh if current is None else current.get("data") or {}
            # A former owner may write between the two calls: then read again.
            if await self._try_write(name, current, data):
                return data
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _write(self, name: str, data: dict[str, str]) -> None:
        """Write the data. StateLost if another process has written the ConfigMap, StateProblem if it is rejected."""
        data, pause = dict(data), _PAUSE
        while not await self._try_write(name, self._written.get(name), data):
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            if await self._was_written(name, data):
                return

    async def _try_write(self, name: str, current: Json | None, data: dict[str, str]) -> bool:
        """Replace `current`, or create it if None. False after a conflict or if the outcome is unknown."""
        metadata: Json = {"name": name, "labels": _LABELS, "annotations": {_OWNER: self._owner.identity}}
        body: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        try:
            await asyncio.sleep(self._limiter.take())
            self._owner.check()
            if current is None:
                self._written[name] = await self._objects.create_object(CONFIG_MAPS, body)
            else:
                metadata["resourceVersion"] = _version(current)
                self._written[name] = await self._objects.replace_object(CONFIG_MAPS, body)
        except ApiError as problem:
            if problem.status == CONFLICT or is_ambiguous(problem):
                return False
            raise StateProblem(_error_message(name, problem)) from None
        return True

    async def _was_written(self, name: str, data: dict[str, str]) -> bool:
        """Return True if a write without a response took effect. StateLost if another process has written."""
        current = await self._read(name)
        if _version(current) == _version(self._written.get(name)):
            return False
        if current is None or _owner(current) != self._owner.identity:
            change = "deleted" if current is None else f"written by {_owner(current) or 'another client'}"
            self._lost = StateLost(f"ConfigMap {name} was {change}; this process stops writing")
            raise self._lost
        self._written[name] = current  # this write, or an earlier one of ours that timed out
        return (current.get("data") or {}) == data

    async def _read(self, name: str) -> Json | None:
        """Read a ConfigMap. StateLost if the Lease expires before a response, StateProblem if it is rejected."""
        pause = _PAUSE
        while True:
            self._owner.check()
            try:
                return await get_or_none(self._objects, CONFIG_MAPS, name)
            except ApiError as problem:
                if not is_ambiguous(problem):
                    raise StateProblem(_error_message(name, problem)) from None
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _each(self, numbers: Iterable[int], work: Callable[[int], Awaitable[None]]) -> None:
        """Run `work` for each number with bounded concurrency; raise the first error once all workers have ended."""
        remaining = iter(numbers)

        async def worker() -> None:
            for number in remaining:
                await work(number)

        for result in await asyncio.gather(
            *(worker() for _ in range(self._write_limits.max_in_flight)), return_exceptions=True
        ):
            if isinstance(result, BaseException):
                raise result

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


def _version(config_map: Json | None) -> str:
    return "" if config_map is None else str(config_map["metadata"]["resourceVersion"])


def _owner(config_map: Json | None) -> str:
    return "" if config_map is None else str((config_map["metadata"].get("annotations") or {}).get(_OWNER, ""))


def _is_ours(config_map: Json) -> bool:
    return _LABELS.items() <= (config_map["metadata"].get("labels") or {}).items()


def _count(name: str, head: Json) -> int:
    try:
        return int(head[_SHARDS])
    except (KeyError, ValueError):
        raise StateProblem(f"ConfigMap {name}: {_SHARDS} is not a number: {head.get(_SHARDS)!r}") from None


def _identity(name: str, text: str) -> StateIdentity | None:
    try:
        return msgspec.json.decode(text, type=StateIdentity) if text else None
    except msgspec.DecodeError as problem:
        raise StateProblem(f"ConfigMap {name}: its identity cannot be read: {problem}") from None


def _record(name: str, key: str, text: str) -> TaskRecord:
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError as problem:
        raise StateProblem(f"ConfigMap {name}: the record under {key} cannot be read: {problem}") from None


def _error_message(name: str, problem: ApiError) -> str:
    if problem.status == _FORBIDDEN:
        return f"ConfigMap {name}: {problem}; see manifests/examples/tasks/ for the required RBAC rules"
    return f"ConfigMap {name}: {problem}"
