"""DefaultBinder: binds the pod through the API server."""

from __future__ import annotations

from pyscheduler.api import ApiWriter, BindPlugin, Cycle, Pod


class DefaultBinder(BindPlugin):
    """Create the pods/binding subresource. On an ApiError the pod is forgotten and requeued."""

    name = "DefaultBinder"

    async def bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> None:
        await api.bind(pod, node_name)
