"""Admission of PodGroups and Workloads (scheduling.k8s.io/v1beta1): priority, finalizer, validation.

Fields of alpha feature gates are stored and validated; `preemptionPolicy` is not set from the PriorityClass. Composite
templates are only stored.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyscheduler.embedded.admission.priority import set_priority
from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.resources import Lookup, Rules
from pyscheduler.embedded.status import Cause, duplicate, forbidden_value, invalid_value, required, too_many

PROTECTION_FINALIZER = "scheduling.k8s.io/podgroup-protection"
"""Finalizer of a PodGroup; its controller removes it when no pod of the group is left that has not ended."""
_MAX_PRIORITY = 1_000_000_000
_MAX_CLAIMS, _MAX_TOPOLOGIES, _MAX_TEMPLATES = 4, 1, 8
_POLICIES, _MODES = ("basic", "gang"), ("single", "all")
_TEMPLATES = ("podGroupTemplates", "compositePodGroupTemplates")
_IMMUTABLE = (
    "parentCompositePodGroupName",
    "workloadRef",
    "schedulingConstraints",
    "resourceClaims",
    "disruptionMode",
    "priorityClassName",
    "priority",
    "preemptionPolicy",
)
"""Fields of a PodGroup or a template that only its creator sets."""
_MISMATCH = (
    "priority set in the pod group ({given}) must match the priority computed ({computed}) "
    "based on the priority class set in the spec"
)


def default_pod_group(group: Json, _lookup: Lookup) -> None:
    """Set the disruption mode: pods of the group are evicted one by one."""
    spec = group.setdefault("spec", {})
    if spec.get("disruptionMode") is None:
        spec["disruptionMode"] = {"single": {}}


def admit_pod_group(group: Json, lookup: Lookup) -> None:
    """Set priority and finalizer of a new PodGroup: the admission plugins Priority and PodGroupProtection."""
    set_priority(group, lookup, "podgroups", "scheduling.k8s.io", _MISMATCH)
    finalizers = group["metadata"].setdefault("finalizers", [])
    if PROTECTION_FINALIZER not in finalizers:
        finalizers.append(PROTECTION_FINALIZER)


def check_pod_group(group: Json) -> list[Cause]:
    """Return the causes that make a PodGroup invalid."""
    spec = group.get("spec") or {}
    causes = list(_check_group(spec, "spec"))
    if spec.get("parentCompositePodGroupName") and not spec.get("workloadRef"):
        causes.append(required("spec.workloadRef", "must be set when parentCompositePodGroupName is set"))
    return causes


def check_pod_group_change(new: Json, old: Json) -> list[Cause]:
    """Return the causes for changes of immutable fields of a PodGroup."""
    return list(_check_group_change(new["spec"], old["spec"], "spec"))


def check_workload(workload: Json) -> list[Cause]:
    """Return the causes that make a Workload invalid."""
    spec = workload.get("spec") or {}
    templates = spec.get("podGroupTemplates") or []
    causes = list(_check_union(spec, _TEMPLATES, "spec"))
    causes += _check_list(templates, _MAX_TEMPLATES, "spec.podGroupTemplates")
    for index, template in enumerate(templates):
        causes += _check_group(template, f"spec.podGroupTemplates[{index}]")
    if len({(each.get("priorityClassName", ""), each.get("priority")) for each in templates}) > 1:
        causes.append(invalid_value("spec", None, "detected multiple priority configurations"))
    return causes


def check_workload_change(new: Json, old: Json) -> list[Cause]:
    """Return the causes for changes of immutable fields of a Workload."""
    return list(_check_workload_change(new["spec"], old["spec"]))


def _check_workload_change(new: Json, old: Json) -> Iterator[Cause]:
    if new.get("controllerRef") != old.get("controllerRef"):
        yield _immutable("spec.controllerRef")
    for field in _TEMPLATES:
        path, before = f"spec.{field}", {each["name"]: each for each in old.get(field) or ()}
        for index, template in enumerate(new.get(field) or ()):
            present = before.pop(template["name"], None)
            if present is None:
                yield forbidden_value(f"{path}[{index}]", "item may not be added")
            elif field == "podGroupTemplates":
                yield from _check_group_change(template, present, f"{path}[{index}]")
        if before:
            yield forbidden_value(path, "item may not be removed")


def _check_group(spec: Json, path: str) -> Iterator[Cause]:
    """Yield the causes in the fields that a PodGroup and a template share."""
    policy = spec.get("schedulingPolicy") or {}
    yield from _check_union(policy, _POLICIES, f"{path}.schedulingPolicy")
    if policy.get("gang") is not None:
        yield from _check_min_count(policy["gang"].get("minCount", 0), f"{path}.schedulingPolicy.gang.minCount")
    topology = (spec.get("schedulingConstraints") or {}).get("topology") or ()
    if len(topology) > _MAX_TOPOLOGIES:
        yield too_many(f"{path}.schedulingConstraints.topology", len(topology), _MAX_TOPOLOGIES)
    yield from _check_list(spec.get("resourceClaims") or [], _MAX_CLAIMS, f"{path}.resourceClaims")
    if spec.get("disruptionMode") is not None:
        yield from _check_union(spec["disruptionMode"], _MODES, f"{path}.disruptionMode")
    priority = spec.get("priority") or 0
    if priority > _MAX_PRIORITY:
        yield invalid_value(f"{path}.priority", priority, f"must be less than or equal to {_MAX_PRIORITY}")


def _check_min_count(count: int, path: str) -> Iterator[Cause]:
    if count == 0:
        yield required(path)
    elif count < 1:
        yield invalid_value(path, count, "must be greater than or equal to 1")


def _check_union(value: Json, members: tuple[str, ...], path: str) -> Iterator[Cause]:
    present = [member for member in members if value.get(member) not in (None, [])]
    choices = ", ".join(f"`{member}`" for member in members)
    if not present:
        yield invalid_value(path, "", f"must specify one of: {choices}")
    elif len(present) > 1:
        yield invalid_value(path, f"{{{', '.join(present)}}}", f"must specify exactly one of: {choices}")


def _check_list(items: list[Json], limit: int, path: str) -> Iterator[Cause]:
    if len(items) > limit:
        yield too_many(path, len(items), limit)
        return
    names = [item.get("name") for item in items]
    for index, name in enumerate(names):
        if name in names[:index]:
            yield duplicate(f"{path}[{index}]", name)


def _check_group_change(new: Json, old: Json, path: str) -> Iterator[Cause]:
    yield from (_immutable(f"{path}.{field}") for field in _IMMUTABLE if new.get(field) != old.get(field))
    after, before = new.get("schedulingPolicy") or {}, old.get("schedulingPolicy") or {}
    if after.get("basic") != before.get("basic"):
        yield _immutable(f"{path}.schedulingPolicy.basic")
    if (after.get("gang") is None) != (before.get("gang") is None):
        why = "field cannot be cleared once set" if after.get("gang") is None else "field cannot be set once created"
        yield invalid_value(f"{path}.schedulingPolicy.gang", None, why)


def _immutable(path: str) -> Cause:
    return invalid_value(path, None, "field is immutable")


POD_GROUP = Rules(default_pod_group, admit_pod_group, check=check_pod_group, check_change=check_pod_group_change)
WORKLOAD = Rules(check=check_workload, check_change=check_workload_change)
