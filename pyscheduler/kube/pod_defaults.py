"""Requests that the API server sets in new pods: those of a container default to its limits."""

from __future__ import annotations

from typing import Any


def default_requests(resources: dict[str, Any]) -> None:
    """Set missing requests of a container to its limits."""
    limits = resources.get("limits")
    if limits:
        resources["requests"] = {**limits, **(resources.get("requests") or {})}


def default_container_requests(spec: dict[str, Any]) -> None:
    """Set the requests of all containers of a pod spec; parts of another type are left for validation."""
    for field in ("initContainers", "containers"):
        containers = spec.get(field)
        for container in containers if isinstance(containers, list) else ():
            resources = container.get("resources") if isinstance(container, dict) else None
            if isinstance(resources, dict) and _is_well_formed(resources):
                default_requests(resources)


def _is_well_formed(resources: dict[str, Any]) -> bool:
    return all(isinstance(resources.get(kind) or {}, dict) for kind in ("limits", "requests"))
