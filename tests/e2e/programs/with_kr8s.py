"""Objects through kr8s: by class, by kind, with labels and waiting."""

from __future__ import annotations

import sys

import kr8s
from kr8s.objects import ConfigMap, Deployment

namespace = sys.argv[1]
api = kr8s.api(namespace=namespace)
found = ConfigMap({"metadata": {"name": "kr8s", "namespace": namespace}, "data": {"a": "b"}}, api=api)
found.create()
found.label({"app": "kr8s"})
print(
    "labelled", [each.name for each in kr8s.get("configmaps", label_selector="app=kr8s", namespace=namespace, api=api)]
)
found.patch({"data": {"a": "c"}})
found.refresh()
print("patched", found.data.a)
labels = {"app": "kr8s"}
template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
deployment = Deployment({"metadata": {"name": "kr8s", "namespace": namespace}, "spec": spec}, api=api)
deployment.create()
deployment.scale(0)
print("replicas", deployment.replicas)
found.delete()
found.wait("delete", timeout=20)
print("exists", found.exists())
print("version", api.version()["gitVersion"].split(".")[0])
