"""Nodes on which a DaemonSet runs its pods: by node selector, node affinity and taints of the template."""

from __future__ import annotations

from typing import Final

import msgspec

from pyscheduler.api import Taint, Toleration
from pyscheduler.api.match import first_untolerated, node_terms
from pyscheduler.api.objects import NodeSelector
from pyscheduler.embedded.objects import Json, dig, labels_of

_TAINTS: Final = {
    "node.kubernetes.io/not-ready": "NoExecute",
    "node.kubernetes.io/unreachable": "NoExecute",
    "node.kubernetes.io/disk-pressure": "NoSchedule",
    "node.kubernetes.io/memory-pressure": "NoSchedule",
    "node.kubernetes.io/pid-pressure": "NoSchedule",
    "node.kubernetes.io/unschedulable": "NoSchedule",
}
_HOST_NETWORK_TAINT: Final = "node.kubernetes.io/network-unavailable"
_REQUIRED: Final = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")


class DaemonNodes:
    """Decides for one pod template whether a node runs its pod."""

    def __init__(self, template: Json) -> None:
        spec = template["spec"]
        self.tolerations: list[Json] = [*(spec.get("tolerations") or ()), *_own_tolerations(spec)]
        self._tolerations = msgspec.convert(self.tolerations, list[Toleration])
        self._labels = dict(spec.get("nodeSelector") or {})
        self._node_name = spec.get("nodeName", "")
        required = dig(spec, *_REQUIRED)
        self._terms = node_terms(msgspec.convert(required, NodeSelector)) if required else None

    def should_run(self, node: Json) -> bool:
        """Return True if a pod is created on the node."""
        return self._selects(node) and self._tolerates(node, ("NoSchedule", "NoExecute"))

    def may_continue(self, node: Json) -> bool:
        """Return True if a pod that runs on the node stays there."""
        return self._selects(node) and self._tolerates(node, ("NoExecute",))

    def _selects(self, node: Json) -> bool:
        name, labels = node["metadata"]["name"], labels_of(node)
        if self._node_name and self._node_name != name:
            return False
        if not self._labels.items() <= labels.items():
            return False
        return self._terms is None or any(term.matches(name, labels) for term in self._terms)

    def _tolerates(self, node: Json, effects: tuple[str, ...]) -> bool:
        present = node["spec"].get("taints")
        if not present:
            return True
        taints = msgspec.convert(present, list[Taint])
        return first_untolerated(taints, self._tolerations, effects) is None


def _own_tolerations(spec: Json) -> list[Json]:
    """Return the tolerations that the DaemonSet controller adds to every pod."""
    taints = {**_TAINTS, **({_HOST_NETWORK_TAINT: "NoSchedule"} if spec.get("hostNetwork") else {})}
    return [{"key": key, "operator": "Exists", "effect": effect} for key, effect in taints.items()]


def placement(node: Json) -> Json:
    """Return what identifies the nodes of DaemonSets in a node: labels and taints."""
    return {"labels": labels_of(node), "taints": dig(node, "spec", "taints")}


def pinned_affinity(affinity: Json | None, node: str) -> Json:
    """Return the affinity of a template with the node affinity replaced by the name of one node."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    present = affinity or {}
    return {**present, "nodeAffinity": {**(present.get("nodeAffinity") or {}), _REQUIRED[-1]: terms}}


def pinned_node(pod: Json) -> str:
    """Return the node of a DaemonSet's pod: where it is bound, or to which its affinity pins it; "" if neither."""
    if pod["spec"].get("nodeName"):
        return str(pod["spec"]["nodeName"])
    for term in dig(pod["spec"], *_REQUIRED, "nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == "metadata.name" and field.get("values"):
                return str(field["values"][0])
    return ""
