"""Defaults and validation of a pod spec, in pods and in the templates of workloads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyscheduler.api.quantity import milli_value
from pyscheduler.embedded.admission.meta import label_problems, name_problem
from pyscheduler.embedded.admission.quantities import canonicalize_quantities, negative
from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.status import Cause, duplicate, invalid_value, required, unsupported
from pyscheduler.kube.pod_defaults import default_requests

RESTART_POLICIES = ("Always", "OnFailure", "Never")
_TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_SPREAD_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_DEFAULTS = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_VOLUME_MODES = ("secret", "configMap", "downwardAPI", "projected")
_TAG = re.compile(r":([^/@]+)(@|\Z)")


def default_pod_spec(spec: Json) -> None:
    """Set the defaults of Kubernetes' SetDefaults functions for the fields that matter here."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    host_network = spec.get("hostNetwork", False)
    for field in ("containers", "initContainers"):
        for i, container in enumerate(spec.get(field) or ()):
            _default_container(container, host_network, f"{field}[{i}]")
    if spec.get("resources"):
        canonicalize_quantities(spec["resources"], "requests", "limits", at="resources")
    if "overhead" in spec:
        canonicalize_quantities(spec, "overhead")
    for volume in spec.get("volumes") or ():
        for source in _VOLUME_MODES:
            if source in volume:
                volume[source].setdefault("defaultMode", 0o644)
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]


def _default_container(container: Json, host_network: bool, path: str) -> None:
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = _pull_policy(container.get("image", ""))
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if host_network:
            port.setdefault("hostPort", port.get("containerPort", 0))
    for name in _PROBES:
        if name in container:
            container[name] = {**_PROBE_DEFAULTS, **container[name]}
    resources = container.setdefault("resources", {})
    if resources:
        canonicalize_quantities(resources, "requests", "limits", at=f"{path}.resources")
        default_requests(resources)


def _pull_policy(image: str) -> str:
    tag = _TAG.search(image)
    untagged = tag is None and "@" not in image
    return "Always" if untagged or (tag is not None and tag[1] == "latest") else "IfNotPresent"


def check_pod_spec(spec: Mapping[str, Any], path: str) -> list[Cause]:
    """Return the causes that make a pod spec invalid; defaults must be set already."""
    causes: list[Cause] = []
    if not spec.get("containers"):
        causes.append(required(f"{path}.containers"))
    seen: set[str] = set()
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            causes += _check_container(container, f"{path}.{field}[{index}]", seen)
    if spec["restartPolicy"] not in RESTART_POLICIES:
        causes.append(unsupported(f"{path}.restartPolicy", spec["restartPolicy"], RESTART_POLICIES))
    if spec.get("nodeSelector"):
        causes += label_problems(spec["nodeSelector"], f"{path}.nodeSelector")
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        causes += _check_toleration(toleration, f"{path}.tolerations[{index}]")
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        causes += _check_spread(constraint, f"{path}.topologySpreadConstraints[{index}]")
    for field in ("schedulingGates", "volumes", "resourceClaims"):
        if spec.get(field):
            causes += _check_names(spec[field], f"{path}.{field}")
    if (group := spec.get("schedulingGroup")) is not None:
        causes += _check_scheduling_group(group.get("podGroupName"), f"{path}.schedulingGroup.podGroupName")
    causes += negative(spec.get("overhead"), f"{path}.overhead")
    return causes


def _check_scheduling_group(name: str | None, path: str) -> list[Cause]:
    if name is None:
        return [invalid_value(path, None, "must specify one of: `podGroupName`")]
    problem = name_problem(name)
    return [invalid_value(path, name, problem)] if problem else []


def _check_container(container: Mapping[str, Any], path: str, seen: set[str]) -> list[Cause]:
    causes: list[Cause] = []
    name = container.get("name", "")
    if not name:
        causes.append(required(f"{path}.name"))
    elif problem := name_problem(name, "label"):
        causes.append(invalid_value(f"{path}.name", name, problem))
    elif name in seen:
        causes.append(duplicate(f"{path}.name", name))
    seen.add(name)
    if not container.get("image"):
        causes.append(required(f"{path}.image"))
    for index, port in enumerate(container.get("ports") or ()):
        if not 0 < port.get("containerPort", 0) < 65536:
            where = f"{path}.ports[{index}].containerPort"
            causes.append(invalid_value(where, port.get("containerPort"), "must be between 1 and 65535, inclusive"))
    return causes + _check_resources(container.get("resources") or {}, f"{path}.resources")


def _check_resources(resources: Mapping[str, Any], path: str) -> list[Cause]:
    if not resources:
        return []
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    causes = negative(requests, f"{path}.requests") + negative(limits, f"{path}.limits")
    for name, limit in limits.items():
        if milli_value(requests.get(name, limit)) > milli_value(limit):
            why = f"must be less than or equal to {name} limit of {limit}"
            causes.append(invalid_value(f"{path}.requests", requests[name], why))
    return causes


def _check_toleration(toleration: Mapping[str, Any], path: str) -> list[Cause]:
    causes = []
    operator, effect = toleration.get("operator") or "Equal", toleration.get("effect") or ""
    if operator not in ("Equal", "Exists", "Lt", "Gt"):
        causes.append(unsupported(f"{path}.operator", operator, ("Equal", "Exists")))
    if operator == "Exists" and toleration.get("value"):
        causes.append(
            invalid_value(f"{path}.operator", toleration["value"], "value must be empty when `operator` is 'Exists'")
        )
    if not toleration.get("key") and operator != "Exists":
        causes.append(invalid_value(f"{path}.operator", operator, "operator must be Exists when `key` is empty"))
    if effect and effect not in _TAINT_EFFECTS:
        causes.append(unsupported(f"{path}.effect", effect, _TAINT_EFFECTS))
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        causes.append(invalid_value(f"{path}.effect", effect, why))
    return causes


def _check_spread(constraint: Mapping[str, Any], path: str) -> list[Cause]:
    causes = []
    if constraint.get("maxSkew", 0) <= 0:
        causes.append(invalid_value(f"{path}.maxSkew", constraint.get("maxSkew", 0), "must be greater than zero"))
    if not constraint.get("topologyKey"):
        causes.append(required(f"{path}.topologyKey", "can not be empty"))
    action = constraint.get("whenUnsatisfiable", "")
    if action not in _SPREAD_ACTIONS:
        causes.append(unsupported(f"{path}.whenUnsatisfiable", action, _SPREAD_ACTIONS))
    return causes


def _check_names(items: list[Json], path: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, item in enumerate(items):
        name = item.get("name", "")
        if not name:
            causes.append(required(f"{path}[{index}].name"))
        elif name in seen:
            causes.append(duplicate(f"{path}[{index}].name", name))
        seen.add(name)
    return causes
