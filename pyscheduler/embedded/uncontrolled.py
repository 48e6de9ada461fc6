"""Events about objects that an embedded cluster stores and no controller acts on.

A user who applies an ingress or a network policy would otherwise wait for something that never happens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from pyscheduler.embedded.api import Api
from pyscheduler.embedded.event_names import event_name
from pyscheduler.embedded.history import ADDED, Event
from pyscheduler.embedded.objects import Json, micro_timestamp
from pyscheduler.embedded.status import ApiStatusError

REASON: Final = "NoController"
COMPONENT: Final = "pyscheduler-embedded"
_STORED: Final[Mapping[str, str]] = {
    "apiservices.apiregistration.k8s.io": "requests are not forwarded to other API servers",
    "certificatesigningrequests.certificates.k8s.io": "there is no signer: the request can be approved, not issued",
    "flowschemas.flowcontrol.apiserver.k8s.io": "requests are not prioritized",
    "ingresses.networking.k8s.io": "there is no ingress controller, and no traffic to route",
    "mutatingadmissionpolicies.admissionregistration.k8s.io": "admission policies are not evaluated",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": "webhooks are not called",
    "networkpolicies.networking.k8s.io": "hollow pods have no traffic that a policy could restrict",
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": "requests are not prioritized",
    "services": "there is no load balancer: it gets no external address",
    "storageversionmigrations.storagemigration.k8s.io": "nothing is migrated",
    "validatingadmissionpolicies.admissionregistration.k8s.io": "admission policies are not evaluated",
    "validatingwebhookconfigurations.admissionregistration.k8s.io": "webhooks are not called",
}
"""What is missing, by bucket."""
_ONLY: Final[Mapping[str, Callable[[Json], bool]]] = {"services": lambda obj: obj["spec"]["type"] == "LoadBalancer"}
"""Condition of the Event, by bucket."""


class UncontrolledKinds:
    """Records an Event for each new object of a kind without a controller."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._unsubscribe: list[Callable[[], None]] = []

    def start(self) -> None:
        """Subscribe to the kinds. Call it in the event loop of the server."""
        loop = asyncio.get_running_loop()
        for bucket, text in _STORED.items():
            on_event = partial(self._on_event, loop, _ONLY.get(bucket), text)
            self._unsubscribe.append(self._api.state.store.subscribe(bucket, on_event))

    def stop(self) -> None:
        """End the subscriptions."""
        while self._unsubscribe:
            self._unsubscribe.pop()()

    def _on_event(
        self, loop: asyncio.AbstractEventLoop, concerns: Callable[[Json], bool] | None, text: str, event: Event
    ) -> None:
        if event.kind == ADDED and (concerns is None or concerns(event.version.object)):
            loop.call_soon(self._record, event.version.object, text)  # not within the write that is being stored

    def _record(self, obj: Json, text: str) -> None:
        namespace = obj["metadata"].get("namespace", "default")
        with suppress(ApiStatusError):  # of a quota, or without the namespace: an Event is information, not state
            self._api.create(self._api.resource("events"), namespace, _event(obj, namespace, text, self._api))


def _event(obj: Json, namespace: str, text: str, api: Api) -> Json:
    meta, now = obj["metadata"], api.state.timestamp()
    involved = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": meta["name"], "uid": meta["uid"]}
    involved |= {"namespace": meta["namespace"]} if meta.get("namespace") else {}
    suffix = format(int(api.state.now() * 1e9), "x")
    return {
        "metadata": {"name": event_name(meta["name"], suffix), "namespace": namespace},
        "involvedObject": involved,
        "reason": REASON,
        "message": f"The object is stored, but {text}.",
        "type": "Normal",
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": "",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "eventTime": micro_timestamp(api.state.now()),
        "count": 1,
    }
