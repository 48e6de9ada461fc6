"""Resources of the API versions that Kubernetes publishes and `builtin.py` has no row for.

They are stored and validated by their published schema. A kind with defaults or checks has them in `_RULES`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from pyscheduler.embedded.admission import certificates, horizontal, network, pod_groups, webhooks
from pyscheduler.embedded.admission.published_fields import published_rules
from pyscheduler.embedded.published_kinds import PUBLISHED_KINDS
from pyscheduler.embedded.resources import Resource, Rules
from pyscheduler.embedded.versions import VersionPriority, version_priority

_RULES: dict[str, Rules] = {
    "CertificateSigningRequest": certificates.SIGNING_REQUEST,
    "EndpointSlice": network.ENDPOINT_SLICE,
    "HorizontalPodAutoscaler": horizontal.AUTOSCALER,
    "IPAddress": Rules(name_form="path"),
    "Ingress": network.INGRESS,
    "MutatingWebhookConfiguration": webhooks.MUTATING,
    "NetworkPolicy": network.POLICY,
    "PodGroup": pod_groups.POD_GROUP,
    "ValidatingWebhookConfiguration": webhooks.VALIDATING,
    "Workload": pod_groups.WORKLOAD,
}
_WITHOUT_GENERATION = {
    "APIService",
    "CertificateSigningRequest",
    "ClusterTrustBundle",
    "IPAddress",
    "PodCertificateRequest",
    "PodGroup",
    "RuntimeClass",
    "ServiceCIDR",
    "StorageVersionMigration",
    "Workload",
}
_FIELDS = {
    "CertificateSigningRequest": {"spec.signerName": "spec.signerName"},
    "ClusterTrustBundle": {"spec.signerName": "spec.signerName"},
    "PodCertificateRequest": {"spec.signerName": "spec.signerName", "spec.nodeName": "spec.nodeName"},
}
_RESOURCE_FIELDS: dict[tuple[str, str], dict[str, Any]] = {
    ("autoscaling/v1", "HorizontalPodAutoscaler"): {
        "to_stored": horizontal.to_stored,
        "from_stored": horizontal.from_stored,
    },
    ("scheduling.k8s.io/v1beta1", "PodGroup"): {"unconditional_update": False},
    ("scheduling.k8s.io/v1beta1", "Workload"): {"unconditional_update": False},
}
"""Further fields of `Resource` by API version and kind, such as conversions to the stored version."""


def stored_resources(present: Collection[tuple[str, str]]) -> Iterator[Resource]:
    """Yield a resource for each published kind whose (apiVersion, plural) is not in `present`; newer versions first."""
    for row in sorted(published_rows(), key=_newest_first):
        api_version, kind, plural, scope, names, categories, parts = row
        if (api_version, plural) in present:
            continue
        group, _, version = api_version.rpartition("/")
        yield Resource(
            group,
            version,
            kind,
            plural,
            scope == "namespaced",
            _words(names),
            _words(categories),
            frozenset(_words(parts)),
            generation=kind not in _WITHOUT_GENERATION,
            fields=_FIELDS.get(kind, {}),
            rules=published_rules(_RULES.get(kind, Rules()), group, version, kind),
            **_RESOURCE_FIELDS.get((api_version, kind), {}),
        )


def published_rows() -> list[list[str]]:
    """Return API version, kind, plural, scope, short names, categories and subresources of each published kind."""
    return [row.split() for row in PUBLISHED_KINDS.replace("\n  ", " ").strip().split("\n")]


def _newest_first(row: list[str]) -> tuple[str, VersionPriority]:
    group, _, version = row[0].rpartition("/")
    return group, version_priority(version)


def _words(text: str) -> tuple[str, ...]:
    return () if text == "-" else tuple(text.split(","))
