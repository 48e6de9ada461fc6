"""Asyncio driver of the controller of ResourceClaims."""

from __future__ import annotations

import math
from typing import NamedTuple

from pyscheduler.clock import Clock
from pyscheduler.embedded.client import Informer, WorkQueue
from pyscheduler.embedded.objects import Json, Key
from pyscheduler.embedded.workloads.apply_actions import apply_actions
from pyscheduler.embedded.workloads.objects import controller_uid, key_of, uid_of
from pyscheduler.embedded.workloads.recorder import EventRecorder
from pyscheduler.embedded.workloads.resource_claims import reconcile_claim, reconcile_pod
from pyscheduler.kube.object_client import ObjectClient

_POD, _CLAIM = "Pod", "ResourceClaim"


class ClaimItem(NamedTuple):
    """Kind and key of an object to reconcile."""

    kind: str
    key: Key


class ClaimController:
    """Controller of ResourceClaims. The caller owns and runs the informers."""

    def __init__(
        self,
        client: ObjectClient,
        clock: Clock,
        pods: Informer[Json],
        claims: Informer[Json],
        templates: Informer[Json],
    ) -> None:
        self._client, self._clock = client, clock
        self._pods, self._claims, self._templates = pods, claims, templates
        self._owned: dict[str, dict[Key, Json]] = {}
        """Claims by the UID of their pod, those included that the informer has not received yet."""
        self._recorder = EventRecorder(client, clock)
        self.queue: WorkQueue[ClaimItem] = WorkQueue(clock)
        pods.listeners.append(self._on_pod)
        claims.listeners.append(self._on_claim)
        templates.listeners.append(self._on_template)

    async def reconcile(self, item: ClaimItem) -> None:
        """Reconcile one pod or one claim."""
        informer = self._pods if item.kind == _POD else self._claims
        obj = informer.objects.get(item.key)
        if obj is None:
            self.queue.forget(item)
            return
        if item.kind == _CLAIM:
            await apply_actions(self._client, reconcile_claim(obj, self._pods.objects.get))
            return
        owned = list(self._owned.get(uid_of(obj), {}).values())
        plan = reconcile_pod(obj, owned, self._templates.objects, self._clock.wall())
        await apply_actions(self._client, plan.actions, self._created, recorder=self._recorder)
        if plan.requeue_at < math.inf:
            self.queue.add_at(item, plan.requeue_at)

    def _created(self, claim: Json) -> None:
        """Store a claim before the informer has it, so that it is not created twice; then its name is shown."""
        self._own(claim)
        self._queue_owner(claim)

    def _own(self, claim: Json) -> None:
        if owner := controller_uid(claim):
            self._owned.setdefault(owner, {})[key_of(claim)] = claim

    def _queue_owner(self, claim: Json) -> None:
        for owner in claim["metadata"].get("ownerReferences") or ():
            if owner["kind"] == _POD:
                self.queue.add(ClaimItem(_POD, (key_of(claim)[0], owner["name"])))

    def _on_pod(self, before: Json | None, after: Json | None) -> None:
        pod = after if after is not None else before
        if pod is None:
            return
        if after is not None and pod["spec"].get("resourceClaims"):
            self.queue.add(ClaimItem(_POD, key_of(pod)))
        if after is None:
            self._owned.pop(uid_of(pod), None)
        for key in self._claims_of(pod):
            self.queue.add(ClaimItem(_CLAIM, key))

    def _claims_of(self, pod: Json) -> set[Key]:
        """Return the claims that the pod may have reserved."""
        namespace, status = key_of(pod)[0], pod.get("status") or {}
        names = [entry.get("resourceClaimName") for entry in pod["spec"].get("resourceClaims") or ()]
        names += [each.get("resourceClaimName") for each in status.get("resourceClaimStatuses") or ()]
        names.append((status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName"))
        return {(namespace, name) for name in names if name}

    def _on_claim(self, before: Json | None, after: Json | None) -> None:
        if after is not None:
            self._own(after)
            self._queue_owner(after)
            self.queue.add(ClaimItem(_CLAIM, key_of(after)))
        elif before is not None:
            self._owned.get(controller_uid(before), {}).pop(key_of(before), None)

    def _on_template(self, _: Json | None, after: Json | None) -> None:
        """Queue the pods that wait for the template."""
        if after is None:
            return
        namespace, name = key_of(after)
        for key, pod in self._pods.objects.items():
            entries = pod["spec"].get("resourceClaims") or ()
            if key[0] == namespace and any(each.get("resourceClaimTemplateName") == name for each in entries):
                self.queue.add(ClaimItem(_POD, key))
