"""Pod specs of benchmarks: parts of a pod spec, by the names in the figures."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
_ZONE = "topology.kubernetes.io/zone"
_HOSTNAME = "kubernetes.io/hostname"
_WEB: Json = {"matchLabels": {"app": "web"}}
_NO_POD: Json = {"matchLabels": {"app": "no-such-app"}}


def _spread(key: str, skew: int, unsatisfiable: str) -> Json:
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": unsatisfiable, "labelSelector": _WEB}


def _term(selector: Json, key: str) -> Json:
    return {"labelSelector": selector, "topologyKey": key}


def _preferred(weight: int, selector: Json, key: str) -> Json:
    return {"weight": weight, "podAffinityTerm": _term(selector, key)}


def _affinity(**kinds: Json) -> Json:
    return {"affinity": kinds}


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

_APART = _affinity(podAntiAffinity={_PREFERRED: [_preferred(5, _WEB, _HOSTNAME)]})
"""Preferred anti-affinity to other web pods."""

POD_SPECS: dict[str, Json] = {
    "nothing": {},
    # One of 200 templates in turn, which differ in their requests; see `decide.pod`.
    "mixed": {},
    # One required and one preferred constraint.
    "spread": {
        "topologySpreadConstraints": [
            _spread(_ZONE, 50, "DoNotSchedule"),
            _spread(_HOSTNAME, 5, "ScheduleAnyway"),
        ]
    },
    "spread-hard": {
        "topologySpreadConstraints": [_spread(_ZONE, 50, "DoNotSchedule"), _spread(_HOSTNAME, 50, "DoNotSchedule")]
    },
    # Two preferred constraints, or one of each kind, and preferred anti-affinity.
    "spread-apart": {
        "topologySpreadConstraints": [_spread(_ZONE, 5, "ScheduleAnyway"), _spread(_HOSTNAME, 1, "ScheduleAnyway")],
        **_APART,
    },
    "spread-hard-apart": {
        "topologySpreadConstraints": [_spread(_ZONE, 5, "DoNotSchedule"), _spread(_HOSTNAME, 1, "ScheduleAnyway")],
        **_APART,
    },
    "affinity-required": _affinity(
        podAffinity={_REQUIRED: [_term(_WEB, _ZONE)]}, podAntiAffinity={_REQUIRED: [_term(_NO_POD, _HOSTNAME)]}
    ),
    "affinity-preferred": _affinity(
        podAffinity={_PREFERRED: [_preferred(10, _WEB, _ZONE)]},
        podAntiAffinity={_PREFERRED: [_preferred(5, _WEB, _HOSTNAME)]},
    ),
    "affinity": _affinity(
        podAffinity={_REQUIRED: [_term(_WEB, _ZONE)], _PREFERRED: [_preferred(10, _WEB, _ZONE)]},
        podAntiAffinity={
            _REQUIRED: [_term(_NO_POD, _HOSTNAME)],
            _PREFERRED: [_preferred(5, _WEB, _HOSTNAME)],
        },
    ),
}
