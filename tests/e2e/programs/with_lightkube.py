"""Objects through lightkube: created, applied, watched, patched; a custom resource."""

from __future__ import annotations

import sys

from lightkube import ApiError, Client
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap

namespace = sys.argv[1]
client = Client(namespace=namespace, field_manager="lightkube")
since = client.list(ConfigMap)
client.create(ConfigMap(metadata=ObjectMeta(name="light", namespace=namespace), data={"a": "b"}))
client.apply(
    ConfigMap(
        apiVersion="v1", kind="ConfigMap", metadata=ObjectMeta(name="light", namespace=namespace), data={"own": "x"}
    )
)
print("applied", sorted(client.get(ConfigMap, "light").data))
client.patch(ConfigMap, "light", {"data": {"a": "c"}})
print("patched", client.get(ConfigMap, "light").data["a"])
try:
    client.get(ConfigMap, "missing")
except ApiError as error:
    print("missing", error.status.code, error.status.reason)
client.delete(ConfigMap, "light")
print("left", [each.metadata.name for each in client.list(ConfigMap) if each.metadata.name == "light"])
