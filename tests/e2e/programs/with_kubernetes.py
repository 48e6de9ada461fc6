"""Objects through the official client: typed, dynamic, watched, paged."""

from __future__ import annotations

import sys

from kubernetes import client, config, dynamic, watch

namespace = sys.argv[1]
api_client = config.new_client_from_config()
core, apps = client.CoreV1Api(api_client), client.AppsV1Api(api_client)
for number in range(3):
    labels = {"app": "sync"}
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name=f"sync-{number}", labels=labels), data={"a": "b"})
    core.create_namespaced_config_map(namespace, body)
page = core.list_namespaced_config_map(namespace, label_selector="app=sync", limit=2)
rest = core.list_namespaced_config_map(namespace, label_selector="app=sync", limit=2, _continue=page.metadata._continue)
print("pages", len(page.items), len(rest.items))
core.patch_namespaced_config_map("sync-0", namespace, {"data": {"a": "c"}})
print("patched", core.read_namespaced_config_map("sync-0", namespace).data["a"])
try:
    core.create_namespaced_config_map(namespace, client.V1ConfigMap(metadata=client.V1ObjectMeta(name="sync-0")))
except client.ApiException as error:
    print("conflict", error.status, error.reason)
since = core.list_namespaced_config_map(namespace).metadata.resource_version
core.delete_namespaced_config_map("sync-2", namespace)
for event in watch.Watch().stream(
    core.list_namespaced_config_map, namespace, resource_version=since, timeout_seconds=20
):
    print("event", event["type"], event["object"].metadata.name)
    break
container = client.V1Container(name="c", image="i", resources=client.V1ResourceRequirements(requests={"cpu": "1m"}))
template = client.V1PodTemplateSpec(
    metadata=client.V1ObjectMeta(labels=labels), spec=client.V1PodSpec(containers=[container])
)
spec = client.V1DeploymentSpec(replicas=0, selector=client.V1LabelSelector(match_labels=labels), template=template)
apps.create_namespaced_deployment(namespace, client.V1Deployment(metadata=client.V1ObjectMeta(name="sync"), spec=spec))
print("scale", apps.read_namespaced_deployment_scale("sync", namespace).spec.replicas)
maps = dynamic.DynamicClient(api_client).resources.get(api_version="v1", kind="ConfigMap")
print("dynamic", maps.get(name="sync-1", namespace=namespace).data.a)
maps.server_side_apply(
    body={"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "sync-1"}, "data": {"own": "x"}},
    namespace=namespace,
    field_manager="sync",
)
print("applied", sorted(core.read_namespaced_config_map("sync-1", namespace).data))
