"""RackNote: annotate a pod with the rack of its node before it is bound."""

from pyscheduler.api import ApiWriter, Cycle, Pod, PreBindPlugin, Rejection


class RackNote(PreBindPlugin):
    name = "RackNote"

    async def pre_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> Rejection | None:
        node = await api.get(f"/api/v1/nodes/{node_name}")
        rack = node.get("metadata", {}).get("labels", {}).get("rack")
        if rack is None:
            return Rejection("node(s) had no rack label")
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        await api.merge(path, {"metadata": {"annotations": {"rack": rack}}})
        return None
