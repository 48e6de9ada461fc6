"""Images on nodes, and the containers and image volumes that use them."""

from __future__ import annotations

from tests.conformance.generator.generated_cluster import GeneratedCluster, Manifest, containers, put

_MIB = 1024 * 1024
_IMAGES = {
    "registry.example/app:1": 400 * _MIB,
    "registry.example/big:latest": 3000 * _MIB,
    "registry.example:5000/tool:latest": 90 * _MIB,
    "registry.example/init:1": 25 * _MIB,
    "registry.example/small@sha256:0123": 10 * _MIB,
}
_USED_IMAGES = (*_IMAGES, "registry.example/big", "registry.example:5000/tool", "registry.example/unknown:1")


def on_node(cluster: GeneratedCluster, node: Manifest) -> None:
    images = []
    for name in cluster.some(tuple(_IMAGES), 0, 4):
        size = _IMAGES[name] if cluster.chance(0.9) else _IMAGES[name] + 77 * _MIB
        names = [name, f"mirror.example/{name}"] if cluster.chance(0.2) else [name]
        images.append({"names": names, "sizeBytes": size})
    if images:
        node["status"]["images"] = images
        cluster.mark("images:on-node")


def in_pod(cluster: GeneratedCluster, pod: Manifest) -> None:
    for container in (*containers(pod), *pod["spec"].get("initContainers", ())):
        container["image"] = cluster.one(*_USED_IMAGES)
    if cluster.chance(0.2):
        source = {"reference": cluster.one(*_USED_IMAGES), "pullPolicy": "IfNotPresent"}
        put(pod, "spec.volumes", [{"name": f"image-{cluster.serial()}", "image": source}])
        cluster.mark("images:volume")
