"""Host ports: addresses, protocols, sidecars, host network."""

from __future__ import annotations

from tests.conformance.generator.generated_cluster import GeneratedCluster, Manifest, containers, put

Place = tuple[str, str, int]

_ADDRESSES = ("", "", "0.0.0.0", "127.0.0.1", "10.0.0.1", "::")


def in_pod(cluster: GeneratedCluster, pod: Manifest) -> None:
    if cluster.chance(0.4):
        return
    container = cluster.one(*containers(pod), *pod["spec"].get("initContainers", ()))
    ports = [_port(cluster) for _ in range(cluster.one(1, 1, 2))]
    taken = _taken(cluster, pod["spec"].get("nodeName"))
    put(container, "ports", [port for port in ports if _place(port) not in taken])
    if cluster.chance(0.1):
        pod["spec"]["hostNetwork"] = True
        for port in container["ports"]:
            port["containerPort"] = port["hostPort"]
        cluster.mark("ports:host-network")


def without_ports(pod: Manifest) -> None:
    for container in (*containers(pod), *pod["spec"].get("initContainers", ())):
        container.pop("ports", None)


def _taken(cluster: GeneratedCluster, node_name: str | None) -> set[Place]:
    """Return the ports of the pods on that node: no kubelet admits two pods with the same port."""
    specs = [pod["spec"] for pod in cluster.assigned if node_name and pod["spec"]["nodeName"] == node_name]
    owners = [container for spec in specs for container in (*spec["containers"], *spec.get("initContainers", ()))]
    return {_place(port) for container in owners for port in container.get("ports", ())}


def _place(port: Manifest) -> Place:
    return port.get("hostIP") or "0.0.0.0", port["protocol"], port["hostPort"]


def _port(cluster: GeneratedCluster) -> Manifest:
    number = cluster.one(80, 80, 443, 53)
    made = {"containerPort": 8080, "hostPort": number, "protocol": cluster.one("TCP", "TCP", "TCP", "UDP", "SCTP")}
    address = cluster.one(*_ADDRESSES)
    cluster.mark(f"ports:{address or 'any'}")
    return {**made, "hostIP": address} if address else made
