"""Node type of the hollow kubelet: the scheduler's fields and those that adoption and failure need."""

from __future__ import annotations

from typing import Final

from pyscheduler.api.objects import ApiObject, NodeSpec, NodeStatus, ObjectMeta

HEARTBEATS: Final = "pyscheduler.io/heartbeats"
"""Annotation of a Node; with the value `stopped` its kubelet is dead."""
STOPPED: Final = "stopped"


class NodeAddress(ApiObject, frozen=True):
    type: str = ""
    address: str = ""


class NodeSystemInfo(ApiObject, frozen=True):
    container_runtime_version: str = ""


class HollowNodeStatus(NodeStatus, frozen=True):
    addresses: tuple[NodeAddress, ...] | None = None
    node_info: NodeSystemInfo = NodeSystemInfo()


class HollowNode(ApiObject, frozen=True):
    """A core/v1 Node."""

    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: HollowNodeStatus = HollowNodeStatus()

    @property
    def is_failed(self) -> bool:
        """True if the kubelet of the node is to be dead."""
        return (self.metadata.annotations or {}).get(HEARTBEATS) == STOPPED

    @property
    def address(self) -> str:
        """Internal IP address, "" if the node has none."""
        addresses = self.status.addresses or ()
        return next((found.address for found in addresses if found.type == "InternalIP"), "")
