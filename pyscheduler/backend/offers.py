"""Offers: the resources that may be used now, which is a budget's limit minus what is allocated to tasks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Final, Protocol

import msgspec

from pyscheduler.api import ApiError, ResourceKind
from pyscheduler.backend.broadcast import BroadcastEvent
from pyscheduler.backend.client import PodsApi
from pyscheduler.backend.resources import Resources
from pyscheduler.backend.task_table import TaskTable

_FORBIDDEN: Final = 403
_QUOTAS: Final = ResourceKind("", "v1", "resourcequotas", "ResourceQuota")


class Offer(msgspec.Struct, frozen=True):
    """Resources that may be used now. `free` None means no limit; resources missing in `free` are not limited."""

    free: Resources | None = None

    def has_room_for(self, requests: Resources) -> bool:
        """Return True if nothing would be missing; the faster form."""
        return self.free is None or requests.fits(self.free)

    def missing(self, requests: Resources) -> Resources:
        """Return the part of `requests` that exceeds the offer; empty if it fits."""
        return Resources() if self.free is None else requests.missing(self.free)


class Budget(Protocol):
    """Source of the limit."""

    async def limit(self, ours: Resources) -> Resources | None:
        """Return the most that all tasks together may use, None for no limit. Called at start and every few seconds.

        `ours` is what the backend's pods use now, for budgets that count it together with the use of others.
        ApiError if the limit cannot be read; then the last one stays in use.
        """
        ...


class FixedBudget:
    """Constant limit."""

    def __init__(self, limit: Resources) -> None:
        self._limit = limit

    async def limit(self, ours: Resources) -> Resources:  # noqa: ARG002  # not shared with others
        """Return the constant limit."""
        return self._limit


class SharedBudget:
    """One limit for several backends of one event loop: what one has allocated is not free for the others."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.members: list[QuotaAccountant] = []
        """Accountants of the running backends."""

    async def limit(self, ours: Resources) -> Resources | None:
        """Return the limit of all backends together. ApiError."""
        return await self._budget.limit(ours)


class NamespaceQuota:
    """Limit set by the ResourceQuotas of the client's namespace, minus what others use there.

    Only requests and the count of pods are read. Scoped quotas and quotas on limits are enforced by the API server,
    which rejects the pod; its task then waits.
    """

    def __init__(self, client: PodsApi, *, optional: bool = False) -> None:
        """With `optional`, quotas that may not be read (RBAC) do not count."""
        self._client, self._optional = client, optional

    async def limit(self, ours: Resources) -> Resources | None:
        """Return the quota that remains for the backend; None if there is no quota. ApiError."""
        try:
            quotas = await self._client.list_objects(_QUOTAS)
        except ApiError as problem:
            if self._optional and problem.status == _FORBIDDEN:
                return None
            message = f"the ResourceQuotas of namespace {self._client.namespace} cannot be read: {problem}"
            raise ApiError(problem.status, problem.reason, message) from None
        limit: dict[str, int] = {}
        for quota in quotas:
            spec, status = quota.get("spec") or {}, quota.get("status") or {}
            if spec.get("scopes") or spec.get("scopeSelector"):
                continue
            hard, used = _read(status.get("hard") or spec.get("hard")), _read(status.get("used"))
            for name, amount in hard.items():
                others = max(0, used.get(name, 0) - ours.amounts.get(name, 0))
                limit[name] = min(limit.get(name, amount), max(0, amount - others))
        return Resources(limit) if limit else None


def _read(quantities: Mapping[str, str] | None) -> dict[str, int]:
    """Return the amounts of a quota that limit requests, by resource name."""
    named = {_resource(name): quantity for name, quantity in (quantities or {}).items()}
    return Resources.of({name: q for name, q in named.items() if name}).amounts


def _resource(name: str) -> str:
    if name in ("cpu", "memory", "ephemeral-storage", "pods"):
        return name
    if name == "count/pods":
        return "pods"
    return name.removeprefix("requests.") if name.startswith("requests.") else ""


class QuotaAccountant:
    """Current offer: the last limit that the budget returned, minus what is allocated."""

    def __init__(self, budget: Budget | None, table: TaskTable) -> None:
        self.changed = BroadcastEvent()
        """Notified when the offer may have grown."""
        self.listeners: list[Callable[[], None]] = []
        """Called before `changed` is notified."""
        self._budget, self._table = budget, table
        self._limit: Resources | None = None
        self._members = budget.members if isinstance(budget, SharedBudget) else []
        self._members.append(self)

    def offer(self) -> Offer:
        """Return the resources that may be used now."""
        if self._limit is None:
            return Offer(None)
        allocated = self._table.allocated
        for member in self._members:
            if member is not self:
                allocated += member._table.allocated
        return Offer(allocated.capped(self._limit))

    def notify(self) -> None:
        """Notify all backends with this budget that the offer may have grown."""
        for member in list(self._members):
            for listener in member.listeners:
                listener()
            member.changed.notify_all()

    def leave(self) -> None:
        """Count no longer for the other backends with this budget: this one has stopped."""
        if self in self._members:
            self._members.remove(self)
            self.notify()

    def missing_from_limit(self, requests: Resources) -> Resources:
        """Return the part of `requests` that would not fit even if nothing were allocated."""
        return Offer(self._limit).missing(requests)

    async def refresh(self, ours: Resources) -> None:
        """Read the limit from the budget. ApiError."""
        if self._budget is not None:
            self._limit = await self._budget.limit(ours)
        self.notify()

    async def offers(self) -> AsyncGenerator[Offer, None]:
        """Yield the current offer, and a new one whenever more of a resource is free than before."""
        before = self.offer()
        yield before
        while True:
            await self.changed.wait()
            now = self.offer()
            if _has_grown(before, now):
                yield now
            before = now


def _has_grown(before: Offer, now: Offer) -> bool:
    if before.free is None or now.free is None:
        return before.free is not None
    had = before.free.amounts
    return (
        any(amount > had.get(name, 0) for name, amount in now.free.amounts.items())
        or had.keys() > now.free.amounts.keys()
    )
