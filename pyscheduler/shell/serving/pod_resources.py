"""/metrics/resources: requests and limits of each pod, in kube-scheduler's format.

With several lines per pod, a large cluster has a hundred megabytes of them. They are written in slices, which limits
the memory and releases the GIL for the scheduler's thread in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from typing import Final

from msgspec.structs import replace

from pyscheduler.api.objects import Container, PodSpec, ResourceRequirements
from pyscheduler.api.pod import Pod, PodSignatureGroup
from pyscheduler.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, amounts, pod_requests
from pyscheduler.shell.serving.messages import ServerResponse

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_SLICE = 100
"""Pods that are written before other tasks get a turn, in 1 to 2 ms."""
_UNITS = {CPU: "cores", MEMORY: "bytes", EPHEMERAL_STORAGE: "bytes", "storage": "bytes"}
_HELP = (
    "broken down by pod. This shows the resource usage the scheduler and kubelet expect per pod for resources along "
    "with the unit for the resource if any."
)
_ENDED = ("Succeeded", "Failed")
Amounts = Mapping[str, int]


def page(pods: Collection[Pod]) -> ServerResponse:
    """Return the response for these pods."""
    return ServerResponse(_written([pod for pod in pods if pod.phase not in _ENDED]), content_type=CONTENT_TYPE)


async def _written(pods: list[Pod]) -> AsyncIterator[bytes]:
    for name, help, of in (
        ("kube_pod_resource_request", f"Resources requested by workloads on the cluster, {_HELP}", _requests),
        ("kube_pod_resource_limit", f"Resources limit for workloads on the cluster, {_HELP}", limits_of),
    ):
        yield f"# HELP {name} [STABLE] {help}\n# TYPE {name} gauge\n".encode()
        ends: dict[PodSignatureGroup, list[str]] = {}
        for start in range(0, len(pods), _SLICE):
            yield "".join(_lines(name, pod, of, ends) for pod in pods[start : start + _SLICE]).encode()
            await asyncio.sleep(0)


def _lines(name: str, pod: Pod, of: Callable[[PodSpec], Amounts], ends: dict[PodSignatureGroup, list[str]]) -> str:
    """Return the lines of a pod; their ends are cached, because all pods of a template share them."""
    template = pod.signature.template
    end = ends.get(template)
    if end is None:
        end = ends[template] = _ends(template.spec, of(template.spec))
    begin = f'{name}{{namespace="{pod.namespace}",pod="{pod.name}",node="{pod.node_name}",'
    return "".join(begin + each for each in end)


def _ends(spec: PodSpec, amounts: Amounts) -> list[str]:
    priority = "" if spec.priority is None else spec.priority
    common = f'scheduler="{_escaped(spec.scheduler_name)}",priority="{priority}"'
    return [
        f'{common},resource="{_escaped(resource)}",unit="{_unit(resource)}"}} {n / 1000 if resource == CPU else n}\n'
        for resource, n in amounts.items()
        if n
    ]


def _requests(spec: PodSpec) -> Amounts:
    return pod_requests(spec).real


def limits_of(spec: PodSpec) -> Amounts:
    """Return the limits of a pod, summed like its requests; overhead counts only where there is a limit (PodLimits)."""
    stated = replace(
        spec,
        containers=tuple(map(_with_limits_as_requests, spec.containers)),
        init_containers=tuple(map(_with_limits_as_requests, spec.init_containers or ())),
        resources=_limits(spec.resources),
        overhead=None,
    )
    limits = dict(pod_requests(stated).real)
    for resource, n in amounts(spec.overhead).items():
        if limits.get(resource):
            limits[resource] += n
    return limits


def _with_limits_as_requests(container: Container) -> Container:
    return replace(container, resources=_limits(container.resources))


def _limits(resources: ResourceRequirements | None) -> ResourceRequirements | None:
    return ResourceRequirements(requests=resources.limits) if resources else None


def _unit(resource: str) -> str:
    if resource.startswith("attachable-volumes-"):
        return "integer"
    return "bytes" if resource.startswith("hugepages-") else _UNITS.get(resource, "")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
