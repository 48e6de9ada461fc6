"""Hollow nodes: Node objects with the behaviour of a kubelet, but without containers."""

from pyscheduler.embedded.hollow.nodes import HollowNodes
from pyscheduler.embedded.hollow.pod_lifecycle import LifecycleTimings
from pyscheduler.embedded.hollow.template import NodeTemplate, node_templates

__all__ = ["HollowNodes", "LifecycleTimings", "NodeTemplate", "node_templates"]
