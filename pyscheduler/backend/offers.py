"""How much may be used now: the limit that a budget sets, less what tasks hold."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Protocol

import msgspec

from pyscheduler.backend.broadcast import BroadcastEvent
from pyscheduler.backend.client import PodsApi
from pyscheduler.backend.resources import Resources
from pyscheduler.backend.task_table import TaskTable


class Offer(msgspec.Struct, frozen=True):
    """What may be used now; `free` None: as much as one likes. Resources that `free` does not name are not limited."""

    free: Resources | None = None

    def missing(self, wanted: Resources) -> Resources:
        """What the offer lacks of so much; nothing where it suffices."""
        return Resources() if self.free is None else wanted.missing(self.free)


class Budget(Protocol):
    """Where the limit comes from."""

    async def limit(self, ours: Resources) -> Resources | None:
        """The most that all tasks together may hold, None for no limit. Asked at start and now and then.

        `ours` is what the pods of our tasks take at the moment, for budgets that see it among what others take.
        ClusterProblem if it cannot be told; then the last answer holds.
        """
        ...


class FixedBudget:
    """A limit that is given once."""

    def __init__(self, limit: Resources) -> None:
        self._limit = limit

    async def limit(self, ours: Resources) -> Resources:  # noqa: ARG002  # nobody else has a part in it
        """As given."""
        return self._limit


class NamespaceQuota:
    """The limit that the ResourceQuotas of the client's namespace set, less what others in it take.

    Requests are read, and the count of pods; quotas with scopes, and limits, are left to the API server, which refuses
    a pod that it has no room for: its task then waits.
    """

    def __init__(self, client: PodsApi) -> None:
        self._client = client

    async def limit(self, ours: Resources) -> Resources | None:
        """What is left to us; None if there is no quota. ClusterProblem."""
        quotas = await self._client.list_objects("api/v1/resourcequotas")
        found: dict[str, int] = {}
        for quota in quotas:
            spec, status = quota.get("spec") or {}, quota.get("status") or {}
            if spec.get("scopes") or spec.get("scopeSelector"):
                continue
            hard, used = _read(status.get("hard") or spec.get("hard")), _read(status.get("used"))
            for name, amount in hard.items():
                others = max(0, used.get(name, 0) - ours.amounts.get(name, 0))
                found[name] = min(found.get(name, amount), max(0, amount - others))
        return Resources(found) if found else None


def _read(quantities: Mapping[str, str] | None) -> dict[str, int]:
    """Of a quota's amounts those that are about requests, by the resource's own name."""
    named = {_resource(name): quantity for name, quantity in (quantities or {}).items()}
    return Resources.of({name: q for name, q in named.items() if name}).amounts


def _resource(name: str) -> str:
    if name in ("cpu", "memory", "ephemeral-storage", "pods"):
        return name
    if name == "count/pods":
        return "pods"
    return name.removeprefix("requests.") if name.startswith("requests.") else ""


class QuotaAccountant:
    """The offer as it is now: the last word of the budget, less what is held."""

    def __init__(self, budget: Budget | None, table: TaskTable) -> None:
        self.changed = BroadcastEvent()
        """Rings when there may be more."""
        self._budget, self._table = budget, table
        self._limit: Resources | None = None

    def offer(self) -> Offer:
        """What may be used now."""
        return Offer(None if self._limit is None else self._table.allocated.capped(self._limit))

    def missing_from_limit(self, wanted: Resources) -> Resources:
        """What so much would lack even if nothing were held."""
        return Offer(self._limit).missing(wanted)

    async def refresh(self, ours: Resources) -> None:
        """Ask the budget. ClusterProblem."""
        if self._budget is not None:
            self._limit = await self._budget.limit(ours)
        self.changed.notify_all()

    async def offers(self) -> AsyncGenerator[Offer, None]:
        """The offer now, and again whenever there is more of something than before."""
        before = self.offer()
        yield before
        while True:
            await self.changed.wait()
            now = self.offer()
            if _more(before, now):
                yield now
            before = now


def _more(before: Offer, now: Offer) -> bool:
    if before.free is None or now.free is None:
        return before.free is not None
    had = before.free.amounts
    return (
        any(amount > had.get(name, 0) for name, amount in now.free.amounts.items())
        or had.keys() > now.free.amounts.keys()
    )
