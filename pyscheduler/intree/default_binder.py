"""DefaultBinder: tells the API server where the pod goes."""

from __future__ import annotations

from pyscheduler.api import ApiWriter, BindPlugin, Cycle, Pod


class DefaultBinder(BindPlugin):
    """Creates the pods/binding subresource; an ApiError gives the place back and the pod is tried again."""

    name = "DefaultBinder"

    async def bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> None:
        await api.bind(pod, node_name)
