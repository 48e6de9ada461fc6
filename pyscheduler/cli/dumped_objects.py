"""Objects of a dump as the scheduler reads them from an API server, for commands that explain a cluster offline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from pyscheduler.api import ResourceKind
from pyscheduler.api.objects import NodeObject, PodObject
from pyscheduler.cli.batch_cluster import ListedObjects
from pyscheduler.cli.cluster_dump import read_dumps
from pyscheduler.cli.command_problem import CommandProblem
from pyscheduler.kube.pod_defaults import default_container_requests


def dumped_objects(paths: Sequence[Path], kinds: Iterable[ResourceKind]) -> ListedObjects:
    """Return the pods, the nodes and the objects of these kinds in files. CommandProblem names the place."""
    watched = {(f"{kind.group}/{kind.version}".lstrip("/"), kind.kind): kind for kind in kinds}
    pods: list[PodObject] = []
    nodes: list[NodeObject] = []
    others: list[tuple[ResourceKind, dict[str, Any]]] = []
    for place, obj in read_dumps(paths):
        kind = (obj["apiVersion"], obj["kind"])
        try:
            if kind == ("v1", "Pod"):
                pods.append(_pod(obj))
            elif kind == ("v1", "Node"):
                nodes.append(msgspec.convert(obj, NodeObject))
            elif kind in watched:
                others.append((watched[kind], obj))
        except msgspec.ValidationError as problem:
            raise CommandProblem(f"{place}: {problem}") from None
    return ListedObjects(pods, nodes, others)


def _pod(obj: dict[str, Any]) -> PodObject:
    """Return a pod with what the API server would have set, so that manifests can be read too."""
    if isinstance(obj.get("spec"), dict):
        default_container_requests(obj["spec"])
    pod = msgspec.convert(obj, PodObject)
    meta, spec = pod.metadata, pod.spec
    namespace = meta.namespace or "default"
    meta = replace(meta, namespace=namespace, uid=meta.uid or f"{namespace}.{meta.name}")
    return replace(pod, metadata=meta, spec=replace(spec, scheduler_name=spec.scheduler_name or "default-scheduler"))
