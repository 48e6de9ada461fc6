"""Nodes and pods of the scenarios as JSON."""

from __future__ import annotations

from typing import Any

from bench.pod_features import Json

ZONES = 10


def pod(fields: Json, template: int, labels: dict[str, str], cpu: str = "") -> Json:
    """Return a pod without a name; its requests depend on the number of its template."""
    requests = {"cpu": cpu or f"{100 + template}m", "memory": f"{200 + template}Mi"}
    container = {"name": "main", "image": "app:1", "resources": {"requests": requests}}
    spec: dict[str, Any] = {"containers": [container], "schedulerName": "default-scheduler", **fields}
    return {"metadata": {"namespace": "default", "labels": labels}, "spec": spec}


def node(i: int) -> Json:
    """Return a node with 64 cores; zones are assigned round robin."""
    labels = {"kubernetes.io/hostname": f"node-{i}", "topology.kubernetes.io/zone": f"zone-{i % ZONES}"}
    allocatable = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    return {"metadata": {"name": f"node-{i}", "labels": labels}, "status": {"allocatable": allocatable}}
