"""The kopf side: what to watch, and nothing decided.

Only events are handled and only status is written, so users' objects get no finalizers and no annotations from here.
Pods are selected by the server: those outside of groups cost nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import kopf

from pyscheduler.controllers.podgroup_status import POD_GROUP_LABEL, Member, member_of
from pyscheduler.kube.deadlines import Deadlines

GROUP, VERSION, PLURAL = "scheduling.x-k8s.io", "v1alpha1", "podgroups"

GroupKey = tuple[str, str]
"""Namespace and name of a PodGroup."""
DEADLINES = Deadlines()
Enqueue = Callable[[GroupKey, dict[str, Any] | None, list[Member]], None]
"""Told that a group (None: there is none) or its members may have changed."""


def settings(deadlines: Deadlines = DEADLINES) -> kopf.OperatorSettings:
    """Quiet: no peers, no Kubernetes events of kopf's own, pods filtered by the server."""
    quiet = kopf.OperatorSettings()
    quiet.peering.standalone = True
    quiet.posting.enabled = False
    quiet.watching.label_selectors["pods"] = POD_GROUP_LABEL
    # The same bounds as for every other watch and call (pyscheduler.kube.deadlines); kopf's own are 70 s and 5 minutes.
    quiet.watching.server_timeout = round(deadlines.watch)  # which goes into the URL as it is
    quiet.watching.inactivity_timeout = deadlines.watch + deadlines.grace
    quiet.watching.connect_timeout = quiet.networking.connect_timeout = deadlines.connect
    quiet.networking.request_timeout = deadlines.read
    quiet.networking.error_backoffs = (0.1, 0.3)  # watches come back by themselves; longer waits only delay a stop
    return quiet


def registry(login: Callable[[], Awaitable[kopf.ConnectionInfo]], enqueue: Enqueue) -> kopf.OperatorRegistry:
    """The handlers. kopf fills both indexes before it runs any event handler, so no half-known group is reported."""
    ours = kopf.OperatorRegistry()

    @kopf.on.login(id="login", registry=ours)
    async def log_in(**_: Any) -> kopf.ConnectionInfo:
        return await login()

    @kopf.index("", "v1", "pods", id="members", registry=ours)
    async def members(namespace: str | None, labels: kopf.Labels, body: kopf.Body, **_: Any) -> Any:
        name = labels.get(POD_GROUP_LABEL)
        return {(namespace, name): member_of(body)} if name else None

    @kopf.index(GROUP, VERSION, PLURAL, id="groups", registry=ours)
    async def groups(namespace: str | None, name: str, body: kopf.Body, **_: Any) -> Any:
        return {(namespace, name): dict(body)}

    def tell(key: GroupKey, indexes: dict[str, Any]) -> None:
        groups, members = indexes["groups"], indexes["members"]
        found = next(iter(groups[key]), None) if key in groups else None
        enqueue(key, found, list(members[key]) if key in members else [])

    @kopf.on.event("", "v1", "pods", id="pod", registry=ours)
    async def pod_changed(namespace: str | None, labels: kopf.Labels, **indexes: Any) -> None:
        if POD_GROUP_LABEL in labels:
            tell((namespace or "", labels[POD_GROUP_LABEL]), indexes)

    @kopf.on.event(GROUP, VERSION, PLURAL, id="podgroup", registry=ours)
    async def group_changed(namespace: str | None, name: str, **indexes: Any) -> None:
        tell((namespace or "", name), indexes)

    return ours
