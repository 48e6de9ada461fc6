"""Columns of kinds without behaviour of their own: network, autoscaling, certificates, webhooks, roles, pod groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pyscheduler.embedded.columns.column import AGE, NAME, NONE, UNKNOWN, Column, Obj, at, human, joined
from pyscheduler.embedded.objects import dig
from pyscheduler.embedded.verbs.scale import selector_text

_UNSET = "<unset>"
_SHOWN = 3
"""Number of hosts, ports or addresses in a cell; more are counted."""


def _first(items: Iterable[Any], empty: str = _UNSET) -> str:
    texts = [str(item) for item in items]
    if not texts:
        return empty
    return joined(texts[:_SHOWN]) + (f" + {len(texts) - _SHOWN} more..." if len(texts) > _SHOWN else "")


def _hosts(ingress: Obj, _now: float) -> str:
    return _first((rule["host"] for rule in dig(ingress, "spec", "rules") or () if rule.get("host")), "*")


def _load_balancer(obj: Obj, _now: float) -> str:
    points = dig(obj, "status", "loadBalancer", "ingress") or ()
    return joined(point.get("ip") or point.get("hostname") or "" for point in points)


def _ingress_ports(ingress: Obj, _now: float) -> str:
    return "80, 443" if dig(ingress, "spec", "tls") else "80"


def _parameters(item: Obj, _now: float) -> str:
    found = dig(item, "spec", "parameters")
    if not found:
        return NONE
    group = f".{found['apiGroup']}" if found.get("apiGroup") else ""
    return f"{found.get('kind', '')}{group}/{found.get('name', '')}"


INGRESS = (
    NAME,
    Column("Class", at("spec", "ingressClassName", default=NONE)),
    Column("Hosts", _hosts),
    Column("Address", _load_balancer),
    Column("Ports", _ingress_ports),
    AGE,
)
INGRESS_CLASS = (NAME, Column("Controller", at("spec", "controller")), Column("Parameters", _parameters), AGE)
NETWORK_POLICY = (
    NAME,
    Column("Pod-Selector", lambda obj, _now: selector_text(dig(obj, "spec", "podSelector")) or NONE),
    AGE,
)


def _slice_addresses(item: Obj, _now: float) -> str:
    return _first(address for each in item.get("endpoints") or () for address in each.get("addresses") or ())


def _slice_ports(item: Obj, _now: float) -> str:
    return _first(port.get("port", "*") for port in item.get("ports") or ())


ENDPOINT_SLICE = (
    NAME,
    Column("AddressType", at("addressType")),
    Column("Ports", _slice_ports),
    Column("Endpoints", _slice_addresses),
    AGE,
)


def _endpoints(obj: Obj, _now: float) -> str:
    return _first(_pairs(obj), NONE)


def _pairs(obj: Obj) -> Iterator[str]:
    for subset in obj.get("subsets") or ():
        ports = [port["port"] for port in subset.get("ports") or ()]
        for address in subset.get("addresses") or ():
            yield from (f"{address['ip']}:{port}" for port in ports)


ENDPOINTS = (NAME, Column("Endpoints", _endpoints), AGE)


def _reference(autoscaler: Obj, _now: float) -> str:
    target = dig(autoscaler, "spec", "scaleTargetRef") or {}
    return f"{target.get('kind', '')}/{target.get('name', '')}"


def _targets(autoscaler: Obj, _now: float) -> str:
    found = dig(autoscaler, "spec", "metrics") or ()
    current = list(dig(autoscaler, "status", "currentMetrics") or ())
    current += [{}] * (len(found) - len(current))
    texts = [_target(metric, now) for metric, now in zip(found, current, strict=False)]
    return ", ".join(texts[:2]) + (f" + {len(texts) - 2} more..." if len(texts) > 2 else "") or "<none>"


def _target(metric: Obj, current: Obj) -> str:
    kind = metric.get("type", "")
    source = f"{kind[:1].lower()}{kind[1:]}"
    target, now = dig(metric, source, "target") or {}, dig(current, source, "current") or {}
    if target.get("type") == "Utilization":
        field, sign = "averageUtilization", "%"
    else:
        field, sign = ("value" if target.get("type") == "Value" else "averageValue"), ""
    value = now.get(field)
    text = f"{UNKNOWN if value is None else f'{value}{sign}'}/{target.get(field)}{sign}"
    if source in ("resource", "containerResource"):
        return f"{dig(metric, source, 'name')}: {text}"
    return text + (" (avg)" if field == "averageValue" and source != "pods" else "")


AUTOSCALER = (
    NAME,
    Column("Reference", _reference),
    Column("Targets", _targets),
    Column("MinPods", at("spec", "minReplicas", default=_UNSET)),
    Column("MaxPods", at("spec", "maxReplicas", default=0)),
    Column("Replicas", at("status", "currentReplicas", default=0)),
    AGE,
)


def _decision(item: Obj, _now: float) -> str:
    kinds = {each.get("type") for each in dig(item, "status", "conditions") or ()}
    words = [kind for kind in ("Approved", "Denied", "Failed") if kind in kinds] or ["Pending"]
    return joined([*words, *(["Issued"] if dig(item, "status", "certificate") else [])])


def _duration(item: Obj, _now: float) -> str:
    span = dig(item, "spec", "expirationSeconds")
    return NONE if span is None else human(span)


SIGNING_REQUEST = (
    NAME,
    AGE,
    Column("SignerName", at("spec", "signerName")),
    Column("Requestor", at("spec", "username")),
    Column("RequestedDuration", _duration),
    Column("Condition", _decision),
)
RUNTIME_CLASS = (NAME, Column("Handler", at("handler")), AGE)
WEBHOOKS = (NAME, Column("Webhooks", lambda obj, _now: len(obj.get("webhooks") or ()), type="integer"), AGE)


def _component(field: str) -> Column:
    def cell(obj: Obj, _now: float) -> str:
        found = (each.get(field, "") for each in obj.get("conditions") or () if each.get("type") == "Healthy")
        return str(next(found, ""))

    return Column(field.capitalize(), cell)


def _component_state(obj: Obj, _now: float) -> str:
    states = {each.get("type"): each.get("status") for each in obj.get("conditions") or ()}
    return "Healthy" if states.get("Healthy") == "True" else "Unhealthy"


COMPONENT = (NAME, Column("Status", _component_state), _component("message"), _component("error"))


def _role(binding: Obj, _now: float) -> str:
    role = binding.get("roleRef") or {}
    return f"{role.get('kind', '')}/{role.get('name', '')}"


def _subjects(kind: str) -> Column:
    def cell(binding: Obj, _now: float) -> str:
        found = [subject for subject in binding.get("subjects") or () if subject.get("kind") == kind]
        return ", ".join(
            f"{each['namespace']}/{each['name']}" if each.get("namespace") else each["name"] for each in found
        )

    return Column("ServiceAccounts" if kind == "ServiceAccount" else f"{kind}s", cell, priority=1)


ROLE_BINDING = (NAME, Column("Role", _role), AGE, *map(_subjects, ("User", "Group", "ServiceAccount")))


def _quota_amounts(*, limits: bool) -> Callable[[Obj, float], str]:
    def cell(quota: Obj, _now: float) -> str:
        used = dig(quota, "status", "used") or {}
        hard = sorted((dig(quota, "status", "hard") or {}).items())
        return ", ".join(f"{n}: {used.get(n, '0')}/{q}" for n, q in hard if n.startswith("limits") is limits)

    return cell


QUOTA = (NAME, Column("Request", _quota_amounts(limits=False)), Column("Limit", _quota_amounts(limits=True)), AGE)


def _policy(group: Obj, _now: float) -> str:
    return "Basic" if dig(group, "spec", "schedulingPolicy", "gang") is None else "Gang"


def _group_status(group: Obj, _now: float) -> str:
    conditions = {each["type"]: each for each in dig(group, "status", "conditions") or ()}
    if target := conditions.get("DisruptionTarget"):
        return str(target.get("reason", ""))
    scheduled = conditions.get("PodGroupInitiallyScheduled")
    if scheduled is None:
        return "Pending"
    return "Scheduled" if scheduled.get("status") == "True" else "Unschedulable"


POD_GROUP = (
    NAME,
    Column("Policy", _policy),
    Column("Workload", at("spec", "workloadRef", "workloadName", default=NONE)),
    Column("Status", _group_status),
    AGE,
)
