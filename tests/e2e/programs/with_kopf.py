"""An operator with kopf: handlers of creation, update and deletion, with a finalizer and a patch."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import kopf
from kubernetes import client, config

namespace = sys.argv[1]
ready, stop = threading.Event(), threading.Event()
handled: dict[str, threading.Event] = {each: threading.Event() for each in ("created", "updated", "deleted")}
selected = {"app": "kopf"}


@kopf.on.create("configmaps", labels=selected)
def created(patch: kopf.Patch, **_: Any) -> None:
    patch.setdefault("data", {})["seen"] = "yes"
    handled["created"].set()


@kopf.on.update("configmaps", field="data.a", labels=selected)
def updated(old: str, new: str, **_: Any) -> None:
    print("updated", old, new)
    handled["updated"].set()


@kopf.on.delete("configmaps", labels=selected)
def deleted(**_: Any) -> None:
    handled["deleted"].set()


def operate() -> None:
    asyncio.run(kopf.operator(namespaces=[namespace], standalone=True, ready_flag=ready, stop_flag=stop))


operator = threading.Thread(target=operate)
operator.start()
ready.wait(30)
config.load_kube_config()
core = client.CoreV1Api()
meta = client.V1ObjectMeta(name="kopf", labels=selected)
core.create_namespaced_config_map(namespace, client.V1ConfigMap(metadata=meta, data={"a": "b"}))
for name, change in (("created", {"data": {"a": "c"}}), ("updated", None)):
    handled[name].wait(30)
    if change is not None:
        core.patch_namespaced_config_map("kopf", namespace, change)
print("seen", core.read_namespaced_config_map("kopf", namespace).data["seen"])
core.delete_namespaced_config_map("kopf", namespace)
print("deleted", handled["deleted"].wait(30))
stop.set()
operator.join(30)
