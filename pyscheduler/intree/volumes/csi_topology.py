"""Nodes from which a volume is accessible: its node affinity, translated for migrated in-tree volumes.

In-tree volumes of five plugins are served by CSI drivers (KEP-625). A node with the plugin in its CSINode's list of
migrated plugins has the driver's own topology labels, so a zone in the volume's affinity or labels is matched against
the driver's key there. Matches k8s.io/csi-translation-lib where it changes node affinity.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from pyscheduler.api import Selector, StatusError
from pyscheduler.api.match import node_term
from pyscheduler.api.objects import LabelSelectorRequirement, NodeSelectorTerm
from pyscheduler.intree.volumes.objects import Object, annotations_of, field, items, labels_of, text

Affinity = tuple[Selector, ...] | None
"""Selectors of which one must match; None is no restriction."""

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
ZONE_DELIMITER = "__"
MIGRATED_PLUGINS_ANNOTATION = "storage.alpha.kubernetes.io/migrated-plugins"


class _Migration(msgspec.Struct, frozen=True):
    """An in-tree plugin: its name, its field in a volume's spec, and the translation to its CSI driver."""

    plugin: str
    source: str
    topology_key: str = ""
    """The driver's own zone label; "" if the affinity stays as it is."""
    check: Callable[[Object], None] = lambda _: None
    """Raises StatusError for a volume that the driver cannot take over."""


# -- affinity --------------------------------------------------------------------------------------------------------


def affinity_of(volume: Object) -> Affinity:
    """Return spec.nodeAffinity as it stands. matchFields match any node: kube-scheduler passes labels only."""
    required = field(volume, "spec", "nodeAffinity", "required")
    return None if required is None else _selectors(_terms(volume))


def migrated_affinity(volume: Object) -> Affinity:
    """Return the affinity on nodes where the in-tree plugin is migrated. StatusError if it cannot be translated."""
    migration = _migration_of(volume)
    if migration is None:
        return affinity_of(volume)
    migration.check(volume)
    return _translated(volume, migration.topology_key) if migration.topology_key else affinity_of(volume)


def check_migration(volume: Object) -> None:
    """Raise StatusError for an in-tree volume that its CSI driver cannot take over."""
    migration = _migration_of(volume)
    if migration is not None:
        migration.check(volume)


def in_tree_plugin(volume: Object) -> str:
    """Return the volume's in-tree plugin if a CSI driver serves it now, else ""."""
    migration = _migration_of(volume)
    return migration.plugin if migration else ""


def is_migrated(plugin: str, csi_node: Object | None) -> bool:
    """Return True if the node's CSINode lists the plugin as migrated."""
    plugins = annotations_of(csi_node).get(MIGRATED_PLUGINS_ANNOTATION)
    return isinstance(plugins, str) and bool(plugins) and plugin in plugins.split(",")


def _migration_of(volume: Object) -> _Migration | None:
    return next((m for m in _MIGRATIONS if field(volume, "spec", m.source) is not None), None)


def _terms(volume: Object) -> list[NodeSelectorTerm]:
    terms = items(volume, "spec", "nodeAffinity", "required", "nodeSelectorTerms")
    return [_term(_requirements(t, "matchExpressions"), _requirements(t, "matchFields")) for t in terms]


def _term(
    expressions: tuple[LabelSelectorRequirement, ...], fields: tuple[LabelSelectorRequirement, ...] = ()
) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_expressions=expressions, match_fields=fields)


def _requirement(key: str, operator: str, values: tuple[str, ...] | None) -> LabelSelectorRequirement:
    return LabelSelectorRequirement(key=key, operator=operator, values=values)


def _requirements(term: Any, kind: str) -> tuple[LabelSelectorRequirement, ...]:
    return tuple(
        _requirement(text(r, "key"), text(r, "operator"), tuple(map(str, items(r, "values"))))
        for r in items(term, kind)
    )


def _selectors(terms: Iterable[NodeSelectorTerm]) -> Affinity:
    """Return the selectors of terms that can match, less matchFields: a valid term of fields alone matches any node."""
    compiled = (node_term(term) for term in terms)
    return tuple(Selector(term.labels) for term in compiled if term.labels or term.names)


# -- migration -------------------------------------------------------------------------------------------------------


def _translated(volume: Object, driver_key: str) -> Affinity:
    """Return the affinity with the driver's key in place of the zone label, or from the volume's own zone label."""
    terms = _terms(volume)
    zone_key, beta = _zone_key(terms, labels_of(volume))
    zone = labels_of(volume).get(zone_key)
    if any(r.values for r in _expressions(terms, zone_key)):
        terms = [_renamed(term, zone_key, driver_key) for term in terms]
    elif zone is not None and (zones := _zones(zone)):
        within = _requirement(driver_key, "In", zones)
        terms = [_joined(term, within) for term in terms or [_term(())]]
        return _selectors(_regions(terms, beta))
    return None if affinity_of(volume) is None else _selectors(_regions(terms, beta))


def _regions(terms: list[NodeSelectorTerm], beta: bool) -> list[NodeSelectorTerm]:
    if beta and any(r.values for r in _expressions(terms, BETA_REGION)):
        return [_renamed(term, BETA_REGION, REGION) for term in terms]
    return terms


def _zone_key(terms: list[NodeSelectorTerm], labels: Object) -> tuple[str, bool]:
    """Return the zone key of the volume, and True if it is the beta one; affinity takes precedence over labels."""
    for key in (ZONE, BETA_ZONE):
        if any(True for _ in _expressions(terms, key)):
            return key, key == BETA_ZONE
    beta = ZONE not in labels and BETA_ZONE in labels
    return (BETA_ZONE, True) if beta else (ZONE, False)


def _expressions(terms: Iterable[NodeSelectorTerm], key: str) -> Iterable[LabelSelectorRequirement]:
    return (r for term in terms for r in term.match_expressions or () if r.key == key)


def _renamed(term: NodeSelectorTerm, old: str, new: str) -> NodeSelectorTerm:
    expressions = (_requirement(new, r.operator, r.values) if r.key == old else r for r in term.match_expressions or ())
    return _term(tuple(expressions), term.match_fields or ())


def _joined(term: NodeSelectorTerm, requirement: LabelSelectorRequirement) -> NodeSelectorTerm:
    return _term((*(term.match_expressions or ()), requirement), term.match_fields or ())


def _zones(label: str) -> tuple[str, ...]:
    return tuple(sorted({zone.strip() for zone in label.split(ZONE_DELIMITER)} - {""}))


# -- volumes that cannot be migrated -----------------------------------------------------------------------------------

_AWS_VOLUME = re.compile(r"vol-[^/]*\Z")


def _check_aws(volume: Object) -> None:
    """Check that the volume ID is `vol-…`, `aws://<zone>/vol-…` or no URL."""
    volume_id = text(volume, "spec", "awsElasticBlockStore", "volumeID")
    if not volume_id.startswith("aws://"):
        return
    path = re.split(r"[?#]", volume_id.removeprefix("aws://"))[0].partition("/")[2]
    if not _AWS_VOLUME.match(path.strip("/")):
        raise _untranslatable(
            f"failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({volume_id})"
        )


def _check_gce(volume: Object) -> None:
    """Check that the zones of a regional disk are all in one region."""
    labels = labels_of(volume)
    zones = (labels.get(BETA_ZONE) or labels.get(ZONE) or "").split(ZONE_DELIMITER)
    if len(zones) == 1:
        return
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            why = f"zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            raise _untranslatable(f"failed to get region from zones: {why}")
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        listed = " ".join(f"{region}:{{}}" for region in sorted(regions))
        why = f"multiple or no regions gotten from zones, got: map[{listed}]"
        raise _untranslatable(f"failed to get region from zones: {why}")


def _check_azure(volume: Object) -> None:
    kind = field(volume, "spec", "azureDisk", "kind")
    if kind is not None and str(kind).lower() != "managed":
        raise _untranslatable(f"kind({kind}) is not supported in csi migration")


def _untranslatable(why: str) -> StatusError:
    return StatusError(f"could not translate pv: {why}")


_MIGRATIONS = (
    _Migration("kubernetes.io/aws-ebs", "awsElasticBlockStore", "topology.ebs.csi.aws.com/zone", _check_aws),
    _Migration("kubernetes.io/gce-pd", "gcePersistentDisk", "topology.gke.io/zone", _check_gce),
    _Migration("kubernetes.io/azure-disk", "azureDisk", check=_check_azure),
    _Migration("kubernetes.io/cinder", "cinder", "topology.cinder.csi.openstack.org/zone"),
    _Migration("kubernetes.io/portworx-volume", "portworxVolume"),
)
