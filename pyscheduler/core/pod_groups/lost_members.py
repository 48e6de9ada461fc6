"""Members of pod groups on nodes that no longer exist: they are lost, and count toward no minimum.

Nothing runs on such a node. The pod garbage collector deletes the pods some time later, and only then their controllers
create others. If the node returns first, for example since its kubelet registers again, they count again.
"""

from __future__ import annotations

from pyscheduler.api.pod import Pod
from pyscheduler.core.context import Context
from pyscheduler.core.state.node import NodeRow


def set_member(context: Context, pod: Pod) -> None:
    """Add a pod to its group, or replace it by its new version, unless it is lost."""
    if not pod.node_name or context.state.info(pod.node_name) is not None:
        context.groups.set_pod(pod)
    else:
        context.groups.remove_ended(pod.uid)


def set_members_on(context: Context, node: NodeRow) -> None:
    """Update the members on a node that was added or deleted; those that are being bound stay members."""
    if not context.groups.is_enabled:
        return
    for uid in node.pods:
        pod = context.pods.get(uid)
        if pod is not None and pod.node_name:
            set_member(context, pod)
