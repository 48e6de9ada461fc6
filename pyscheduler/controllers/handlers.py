"""Event handlers of the PodGroup controller, without decisions.

Handlers process events only and the controller writes status only, so users' objects get no finalizers or annotations.
Pods are selected by the server, so those outside of groups cost nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import kopf

from pyscheduler.api import ResourceKind
from pyscheduler.controllers.podgroup_status import POD_GROUP_LABEL, Member, member_of
from pyscheduler.kube.deadlines import Deadlines

POD_GROUPS = ResourceKind("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")
_WATCHED = (POD_GROUPS.group, POD_GROUPS.version, POD_GROUPS.plural)

GroupKey = tuple[str, str]
"""Namespace and name of a PodGroup."""
DEADLINES = Deadlines()
Enqueue = Callable[[GroupKey, dict[str, Any] | None, list[Member]], None]
"""Callback for a group (None if it does not exist) and its members, called when either may have changed."""


def settings(deadlines: Deadlines = DEADLINES) -> kopf.OperatorSettings:
    """Return kopf settings: no peering, no Kubernetes events from kopf, pods filtered by the server."""
    configured = kopf.OperatorSettings()
    configured.peering.standalone = True
    configured.posting.enabled = False
    configured.watching.label_selectors["pods"] = POD_GROUP_LABEL
    # Use the deadlines of all other watches and calls; kopf's defaults are 70 s and 5 minutes.
    configured.watching.server_timeout = round(deadlines.watch)  # must be an integer: kopf puts it into the URL
    configured.watching.inactivity_timeout = deadlines.watch + deadlines.grace
    configured.watching.connect_timeout = configured.networking.connect_timeout = deadlines.connect
    configured.networking.request_timeout = deadlines.read
    configured.networking.error_backoffs = (0.1, 0.3)  # watches are renewed anyway; longer backoffs only delay a stop
    return configured


def registry(login: Callable[[], Awaitable[kopf.ConnectionInfo]], enqueue: Enqueue) -> kopf.OperatorRegistry:
    """Return the event handlers. kopf fills both indexes before it runs them, so no incomplete group is reported."""
    ours = kopf.OperatorRegistry()

    @kopf.on.login(id="login", registry=ours)
    async def log_in(**_: Any) -> kopf.ConnectionInfo:
        return await login()

    @kopf.index("", "v1", "pods", id="members", registry=ours)
    async def members(namespace: str | None, labels: kopf.Labels, body: kopf.Body, **_: Any) -> Any:
        name = labels.get(POD_GROUP_LABEL)
        return {(namespace, name): member_of(body)} if name else None

    @kopf.index(*_WATCHED, id="groups", registry=ours)
    async def groups(namespace: str | None, name: str, body: kopf.Body, **_: Any) -> Any:
        return {(namespace, name): dict(body)}

    def enqueue_group(key: GroupKey, indexes: dict[str, Any]) -> None:
        groups, members = indexes["groups"], indexes["members"]
        group = next(iter(groups[key]), None) if key in groups else None
        enqueue(key, group, list(members[key]) if key in members else [])

    @kopf.on.event("", "v1", "pods", id="pod", registry=ours)
    async def pod_changed(namespace: str | None, labels: kopf.Labels, **indexes: Any) -> None:
        if POD_GROUP_LABEL in labels:
            enqueue_group((namespace or "", labels[POD_GROUP_LABEL]), indexes)

    @kopf.on.event(*_WATCHED, id="podgroup", registry=ours)
    async def group_changed(namespace: str | None, name: str, **indexes: Any) -> None:
        enqueue_group((namespace or "", name), indexes)

    return ours
