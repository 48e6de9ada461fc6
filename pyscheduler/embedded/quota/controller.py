"""Enforcement of ResourceQuotas: rejection of new objects that exceed one, and the used amounts in their status.

Used amounts follow every change of the store, so that a request costs no scan. Unlike in a real cluster an update
that uses more is not rejected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyscheduler.embedded.history import ADDED, DELETED, Event
from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.quota.scopes import applies_to
from pyscheduler.embedded.quota.usage import Amounts, nano, quantity_text, unspecified, used_by
from pyscheduler.embedded.resources import Resource
from pyscheduler.embedded.status import forbidden
from pyscheduler.embedded.store import Store

BUCKET = "resourcequotas"


@dataclass
class _Quota:
    """A ResourceQuota with its limits and used amounts."""

    spec: Json
    hard: Amounts
    used: Amounts = field(default_factory=dict)

    def count(self, bucket: str, obj: Json, sign: int) -> None:
        """Add what the object uses, or with sign -1 subtract it."""
        if applies_to(self.spec, bucket, obj):
            for name, amount in used_by(bucket, obj).items():
                if name in self.hard:
                    self.used[name] = self.used.get(name, 0) + sign * amount


class QuotaController:
    """Quotas of all namespaces with their used amounts."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._quotas: dict[str, dict[str, _Quota]] = {}
        self._stale: set[tuple[str, str]] = set()
        store.reactors.append(self._react)

    def admit(self, resource: Resource, obj: Json) -> None:
        """Raise ApiStatusError 403 if the new object exceeds a quota of its namespace."""
        meta = obj["metadata"]
        for name, quota in sorted(self._quotas.get(meta.get("namespace", ""), {}).items()):
            if not applies_to(quota.spec, resource.bucket, obj):
                continue
            if resource.bucket == "pods" and (missing := unspecified(obj, quota.hard)):
                why = f"failed quota: {name}: must specify {missing}"
                raise forbidden(resource.plural, resource.group, meta["name"], why)
            requested = {k: v for k, v in used_by(resource.bucket, obj).items() if k in quota.hard and v}
            exceeded = sorted(k for k, v in requested.items() if quota.used.get(k, 0) + v > quota.hard[k])
            if exceeded:
                why = (
                    f"exceeded quota: {name}, requested: {_amounts(exceeded, requested)}, "
                    f"used: {_amounts(exceeded, quota.used)}, limited: {_amounts(exceeded, quota.hard)}"
                )
                raise forbidden(resource.plural, resource.group, meta["name"], why)

    def sync(self) -> None:
        """Write the status of quotas whose limits or used amounts have changed."""
        stale, self._stale = self._stale, set()
        for namespace, name in stale:
            quota = self._quotas.get(namespace, {}).get(name)
            version = self._store.get(BUCKET, (namespace, name))
            if quota is not None and version is not None:
                used = {each: quantity_text(each, quota.used.get(each, 0)) for each in quota.hard}
                status = {"hard": version.object["spec"].get("hard") or {}, "used": used}
                obj = {**version.object, "metadata": {**version.object["metadata"]}, "status": status}
                self._store.put(BUCKET, version.key, obj)

    def _react(self, bucket: str, event: Event) -> None:
        namespace, name = event.version.key
        if bucket == BUCKET:
            self._change_quota(namespace, name, event)
        for each, quota in self._quotas.get(namespace, {}).items() if namespace else ():
            before = dict(quota.used)
            if event.previous is not None:
                quota.count(bucket, event.previous.object, -1)
            if event.kind != DELETED:
                quota.count(bucket, event.version.object, 1)
            if quota.used != before:
                self._stale.add((namespace, each))

    def _change_quota(self, namespace: str, name: str, event: Event) -> None:
        """Store a new or changed quota with what the objects before this event use."""
        quotas = self._quotas.setdefault(namespace, {})
        if event.kind == DELETED:
            quotas.pop(name, None)
            if not quotas:
                del self._quotas[namespace]
            return
        spec = event.version.object.get("spec") or {}
        if event.kind != ADDED and name in quotas and quotas[name].spec == spec:
            return
        quota = quotas[name] = _Quota(spec, {each: nano(text) for each, text in (spec.get("hard") or {}).items()})
        for bucket in self._store.buckets():
            for version in self._store.scan(bucket, namespace):
                if version is not event.version:
                    quota.count(bucket, version.object, 1)
        if event.previous is not None:
            quota.count(BUCKET, event.previous.object, 1)
        self._stale.add((namespace, name))


def _amounts(names: Iterable[str], amounts: Mapping[str, int]) -> str:
    return ",".join(f"{name}={quantity_text(name, amounts.get(name, 0))}" for name in names)
