"""Client double of the controllers' tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyscheduler.api import ApiError, ResourceKind
from pyscheduler.kube.object_client import Json, ObjectClient, Patch, PatchType
from pyscheduler.kube.paths import PODS


class RecordingClient(ObjectClient):
    """Records each write and sends nothing; the verbs in `rejected` fail with 409, verbs with a kind with 403.

    `created` and `deleted` hold the pods and Jobs that were written. With `quota` creations beyond that number of pods
    fail with 403.
    """

    def __init__(self, *rejected: str, quota: int | None = None) -> None:
        self._quota = quota
        self.attempts = 0
        self.lines: list[str] = []
        self.bodies: list[Json] = []
        self.created: list[Json] = []
        self.deleted: list[str] = []
        self._rejected = rejected

    def _record(self, verb: str, kind: ResourceKind, body: Mapping[str, Any]) -> None:
        if f"{verb} {kind.plural}" in self._rejected:
            raise ApiError(403, "Forbidden", verb)
        if verb in self._rejected:
            raise ApiError(409, "Conflict", verb)
        self.lines.append(f"{verb} {kind.plural}")
        self.bodies.append(dict(body))

    def bodies_of(self, verb: str, plural: str) -> list[Json]:
        """Return what was written with this verb to objects of a kind."""
        line = f"{verb} {plural}"
        return [body for each, body in zip(self.lines, self.bodies, strict=True) if each == line]

    async def create(self, kind: ResourceKind, body: Mapping[str, Any], *, strict: bool = False) -> Json:
        self.attempts += kind == PODS
        if kind == PODS and self._quota is not None and len(self.created) >= self._quota:
            raise ApiError(403, "Forbidden", "exceeded quota: q")
        self._record("create", kind, body)
        if kind.kind == "Event":
            return dict(body)
        name = f"created-{len(self.created)}"
        self.created.append({**body, "metadata": {**body["metadata"], "name": name, "uid": name}})
        return self.created[-1]

    async def patch(
        self,
        kind: ResourceKind,
        key: tuple[str, str],
        change: Patch,
        type: PatchType = "merge",
        subresource: str = "",
        field_manager: str = "",
    ) -> None:
        self._record("patch", kind, {} if isinstance(change, Sequence) else change)

    async def delete(
        self, kind: ResourceKind, key: tuple[str, str], uid: str = "", grace_seconds: int | None = None
    ) -> None:
        self._record("delete", kind, {})
        self.deleted.append(key[1])
