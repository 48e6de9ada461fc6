"""LimitRanges: defaults of containers, and rejection of pods and claims outside of the limits (plugin LimitRanger)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyscheduler.embedded.admission.quantities import canonicalize_quantities
from pyscheduler.embedded.objects import Json, containers_of, dig
from pyscheduler.embedded.quota.usage import Amounts, container_total, nano, pod_level, quantity_text
from pyscheduler.embedded.resources import Lookup, Rules
from pyscheduler.embedded.status import forbidden

ANNOTATION = "kubernetes.io/limit-ranger"
_AMOUNTS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")

Limits = Mapping[str, Any]


def default_limit_range(item: Json, _lookup: Lookup) -> None:
    """Set default limits from the maximum, and default requests from the default limits or the minimum."""
    for limit in (item.get("spec") or {}).get("limits") or ():
        canonicalize_quantities(limit, *_AMOUNTS)
        if limit.get("type") == "Container":
            limits = {**(limit.get("max") or {}), **(limit.get("default") or {})}
            requests = {**(limit.get("min") or {}), **limits, **(limit.get("defaultRequest") or {})}
            limit |= {name: part for name, part in (("default", limits), ("defaultRequest", requests)) if part}


def set_pod_limits(pod: Json, lookup: Lookup) -> None:
    """Set the default requests and limits of a new pod's containers."""
    limits = [limit for limit in _limits(pod, lookup) if limit.get("type") == "Container"]
    notes: list[str] = []
    for field, word in (("containers", "container"), ("initContainers", "init container")):
        for container in pod["spec"].get(field) or ():
            for limit in limits:
                notes += _set_defaults(container, limit, word)
    if notes:
        annotations = pod["metadata"].get("annotations") or {}
        pod["metadata"]["annotations"] = {**annotations, ANNOTATION: f"LimitRanger plugin set: {'; '.join(notes)}"}


def check_pod_limits(pod: Json, lookup: Lookup) -> None:
    """Raise ApiStatusError 403 if a new pod is outside of the limits."""
    _reject("pods", pod, [problem for limit in _limits(pod, lookup) for problem in _pod_problems(pod, limit)])


def _limits(obj: Json, lookup: Lookup) -> list[Limits]:
    ranges = lookup.scan("limitranges", obj["metadata"].get("namespace", ""))
    return [limit for version in ranges for limit in dig(version.object, "spec", "limits") or ()]


def _set_defaults(container: Json, limit: Limits, word: str) -> Iterator[str]:
    resources = container.setdefault("resources", {})
    for kind, field in (("requests", "defaultRequest"), ("limits", "default")):
        missing = {k: v for k, v in (limit.get(field) or {}).items() if k not in (resources.get(kind) or {})}
        if missing:
            resources[kind] = {**(resources.get(kind) or {}), **missing}
            yield f"{', '.join(sorted(missing))} {kind[:-1]} for {word} {container.get('name', '')}"


def _pod_problems(pod: Json, limit: Limits) -> Iterator[str]:
    kind = limit.get("type", "")
    if kind == "Container":
        for container in containers_of(pod["spec"]):
            resources = container.get("resources") or {}
            requests = {name: nano(text) for name, text in (resources.get("requests") or {}).items()}
            limits = {name: nano(text) for name, text in (resources.get("limits") or {}).items()}
            yield from _problems(limit, requests, limits)
    elif kind == "Pod":
        requests, limits = (_pod_total(pod["spec"], name) for name in ("requests", "limits"))
        yield from _problems(limit, requests, limits)


def _pod_total(spec: Json, kind: str) -> Amounts:
    """Return the `requests` or `limits` of a pod without overhead; of its own, only cpu and memory count here."""
    own = {name: amount for name, amount in pod_level(spec, kind).items() if name in ("cpu", "memory")}
    return container_total(spec, kind) | own


def limit_claim(claim: Json, lookup: Lookup) -> None:
    """Raise ApiStatusError 403 if the request of a new claim is outside of the limits."""
    requests = {name: nano(text) for name, text in (dig(claim, "spec", "resources", "requests") or {}).items()}
    problems: list[str] = []
    for limit in _limits(claim, lookup):
        if limit.get("type") == "PersistentVolumeClaim":
            problems += [*_minimum_problems(limit, requests, {}), *_maximum_problems(limit, requests)]
    _reject("persistentvolumeclaims", claim, problems)


def _reject(plural: str, obj: Json, problems: list[str]) -> None:
    if problems:
        text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        raise forbidden(plural, "", obj["metadata"].get("name", ""), text)


def _problems(limit: Limits, requests: Amounts, limits: Amounts) -> Iterator[str]:
    yield from _minimum_problems(limit, requests, limits)
    yield from _maximum_problems(limit, requests, limits)
    kind = limit.get("type", "")
    for name, text in sorted((limit.get("maxLimitRequestRatio") or {}).items()):
        rule = f"{name} max limit to request ratio per {kind} is {text}"
        if not requests.get(name):
            yield f"{rule}, but no request is specified or request is 0"
        elif not limits.get(name):
            yield f"{rule}, but no limit is specified or limit is 0"
        elif limits[name] * nano("1") > nano(text) * requests[name]:
            yield f"{rule}, but provided ratio is {limits[name] / requests[name]:f}"


def _minimum_problems(limit: Limits, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, text in sorted((limit.get("min") or {}).items()):
        rule, least = f"minimum {name} usage per {limit.get('type', '')} is {text}", nano(text)
        if name not in requests:
            yield f"{rule}.  No request is specified"
        elif requests[name] < least:
            yield f"{rule}, but request is {quantity_text(name, requests[name])}"
        elif limits.get(name, least) < least:
            yield f"{rule}, but limit is {quantity_text(name, limits[name])}"


def _maximum_problems(limit: Limits, requests: Amounts, limits: Amounts | None = None) -> Iterator[str]:
    """Compare limits, then requests with the maximum; without `limits`, as for claims, only requests."""
    for name, text in sorted((limit.get("max") or {}).items()):
        rule, most = f"maximum {name} usage per {limit.get('type', '')} is {text}", nano(text)
        if limits is None and name not in requests:
            yield f"{rule}.  No request is specified"
        elif limits is not None and name not in limits:
            yield f"{rule}.  No limit is specified"
        elif limits is not None and limits[name] > most:
            yield f"{rule}, but limit is {quantity_text(name, limits[name])}"
        elif requests.get(name, 0) > most:
            yield f"{rule}, but request is {quantity_text(name, requests[name])}"


LIMIT_RANGE = Rules(default_limit_range)
