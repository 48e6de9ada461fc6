"""Admission of NetworkPolicy, Ingress and EndpointSlice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.resources import Lookup, Rules
from pyscheduler.embedded.status import Cause, invalid_value, required, unsupported

_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")


def default_network_policy(policy: Json, _lookup: Lookup) -> None:
    """Set the policy types from the rules, and the protocol of ports (TCP)."""
    spec = policy.setdefault("spec", {})
    spec.setdefault("podSelector", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]
    for rule in [*(spec.get("ingress") or ()), *(spec.get("egress") or ())]:
        _default_protocols(rule.get("ports"))


def default_endpoint_slice(item: Json, _lookup: Lookup) -> None:
    """Set name and protocol of the ports."""
    _default_protocols(item.get("ports"))
    for port in item.get("ports") or ():
        port.setdefault("name", "")


def _default_protocols(ports: Iterable[Json] | None) -> None:
    for port in ports or ():
        port.setdefault("protocol", "TCP")


def check_endpoint_slice(item: Json) -> list[Cause]:
    """Return causes for an unknown address type and for endpoints without addresses."""
    kind = item.get("addressType", "")
    causes = [] if kind in _ADDRESS_TYPES else [unsupported("addressType", kind, _ADDRESS_TYPES)]
    for index, endpoint in enumerate(item.get("endpoints") or ()):
        if not endpoint.get("addresses"):
            causes.append(required(f"endpoints[{index}].addresses", "must contain at least 1 address"))
    return causes


def check_endpoint_slice_change(new: Json, old: Json) -> list[Cause]:
    """Return a cause if the address type has changed."""
    kind = new.get("addressType")
    return [] if kind == old.get("addressType") else [invalid_value("addressType", kind, "field is immutable")]


def check_ingress(ingress: Json) -> list[Cause]:
    """Return the causes that make an Ingress invalid: no rule, a path or a backend that is incomplete."""
    spec = ingress.get("spec") or {}
    if not spec.get("rules") and not spec.get("defaultBackend"):
        why = "either `defaultBackend` or `rules` must be specified"
        return [invalid_value("spec", spec.get("rules") or [], why)]
    causes = _backend_causes(spec["defaultBackend"], "spec.defaultBackend") if spec.get("defaultBackend") else []
    for index, rule in enumerate(spec.get("rules") or ()):
        for number, path in enumerate((rule.get("http") or {}).get("paths") or ()):
            causes += _path_causes(path, f"spec.rules[{index}].http.paths[{number}]")
    return causes


def _path_causes(path: Json, where: str) -> list[Cause]:
    kind, text = path.get("pathType", ""), path.get("path", "")
    if kind not in _PATH_TYPES:
        return [unsupported(f"{where}.pathType", kind, _PATH_TYPES)]
    causes = []
    if not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        causes.append(invalid_value(f"{where}.path", text, "must be an absolute path"))
    return causes + _backend_causes(path.get("backend") or {}, f"{where}.backend")


def _backend_causes(backend: Json, where: str) -> list[Cause]:
    service: dict[str, Any] | None = backend.get("service")
    if bool(service) == bool(backend.get("resource")):
        return [invalid_value(where, "", "exactly one of service and resource must be specified")]
    port = (service or {}).get("port") or {}
    if service and not port.get("name") and not port.get("number"):
        return [required(f"{where}.service.port", "port name or number is required")]
    return []


POLICY = Rules(default_network_policy)
INGRESS = Rules(check=check_ingress)
ENDPOINT_SLICE = Rules(default_endpoint_slice, check=check_endpoint_slice, check_change=check_endpoint_slice_change)
