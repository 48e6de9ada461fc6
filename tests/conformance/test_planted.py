"""The recorded cases detect planted bugs: small, plausible ones for every in-tree plugin.

`recorded/planted-00.jsonl` has for each bug the smallest case found that detects it. A new bug that is not detected
needs such a case.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import pytest

from pyscheduler.api import Cycle, DefaultNormalizeScore, NodeInfo, NodeTable, Pod, Rejection, found_placement
from pyscheduler.cli.evaluate import Evaluator
from pyscheduler.intree import PLUGINS, image_locality, node_affinity
from pyscheduler.intree import inter_pod_affinity as affinity
from pyscheduler.intree import node_resources_fit as fit
from pyscheduler.intree._preferred import FewPreferences
from pyscheduler.intree.preemption.victims import by_importance
from pyscheduler.intree.spread import counts as spread_counts
from pyscheduler.intree.volumes import csi_nodes, storage_use
from tests.conformance import ours, records
from tests.conformance.compare import Difference, compare
from tests.conformance.coverage import subjects
from tests.conformance.generator.generated_cluster import Manifest

_OF_GROUPS = {"GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount"}
_OF_ASSIGNED_PODS = {"DeferredPodScheduling"}
NAMES = {plugin.name for plugin in PLUGINS} - {"PrioritySort", "DefaultBinder"} - _OF_GROUPS - _OF_ASSIGNED_PODS
"""All plugins that influence where a single pending pod is placed."""


@dataclass(frozen=True)
class Plant:
    """A bug in a plugin: replacements by name within pyscheduler."""

    plugin: str
    bug: str
    instead: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.plugin}: {self.bug}"


def _plant(plugin: str, bug: str, **instead: Any) -> Plant:
    """Return a plant; `instead` has names within the plugin's module."""
    module = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in plugin).lstrip("_")
    return Plant(plugin, bug, {f"intree.{module}.{name}": value for name, value in instead.items()})


def _elsewhere(plugin: str, bug: str, name: str, value: Any) -> Plant:
    """Return a plant; `name` is relative to pyscheduler."""
    return Plant(plugin, bug, {name: value})


def _claims(bug: str, name: str, value: Any) -> Plant:
    """Return a plant in DynamicResources; `name` is relative to the package of its claims."""
    return Plant("DynamicResources", bug, {f"intree.resource_claims.{name}": value})


def _counted_in_every_budget(budgets: Iterable[Any], pod: Pod, left: dict[Any, int]) -> bool:
    covering = [budget for budget in budgets if budget.covers(pod)]
    for budget in covering:
        left[budget] = left.get(budget, budget.allowed) - 1
    return any(left[budget] < 0 for budget in covering)


def _maximum_of_containers(pod: Pod, nodes: NodeTable) -> Any:
    containers = (*pod.spec.containers, *(pod.spec.init_containers or ()))
    return msgspec.structs.replace(image_uses(pod, nodes), most=image_locality.MAX_IMAGE_THRESHOLD * len(containers))


def _full_when_nearly(self: Any, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
    if len(node.pods) + 1 >= node.allowed_pods:
        return Rejection(fit.TOO_MANY_PODS)
    short = [r for r, n, *_ in cycle[fit._REQUESTS] if n > node.allocatable.get(r, 0) - node.requested.get(r, 0)]
    return fit._insufficient_resources(cycle[fit._REQUESTS], node, len(node.pods)) if short else None


def _first_short(requests: Any, node: NodeInfo, others: int) -> Rejection:
    rejection = fit_why_not(requests, node, others)
    return Rejection(rejection.reasons[0], resolvable=rejection.resolvable)


def _unweighted(self: Any, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
    few = [each for each in cycle[node_affinity._PREFERRED] if isinstance(each, FewPreferences)]
    return sum(term.matches(node.name, node.labels) for each in few for _, term in each.terms)


def _first_named(self: Any, pod: Pod) -> Rejection | None:
    gates = pod.spec.scheduling_gates
    return Rejection(f"waiting for scheduling gates: [{gates[0].name}]", resolvable=False) if gates else None


def _named_or_nothing(self: Any, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
    return None if pod.node_name == node.name else Rejection("node(s) didn't match the requested node name")


def _rounded_up(resources: Iterable[tuple[int, int, int]]) -> int:
    rated = [(-(-(capacity - used) * 100 // capacity), weight) for used, capacity, weight in resources]
    return sum(score * weight for score, weight in rated) // sum(weight for _, weight in rated)


def _rounded(self: Any, scores: Any, span: tuple[int, int]) -> Any:
    least, most = span
    return np.rint((scores - least) * 100 / max(most - least, 1)).astype(np.int64)


def _never_first(self: Any) -> bool:
    return False


limits_of, fit_why_not = csi_nodes.limits_of, fit._insufficient_resources
utilization, image_uses = storage_use._utilization, image_locality._image_uses
skew_of = spread_counts.Skew.of
NOTHING: Mapping[str, Any] = {}
_TOTALS = "intree.resource_claims.device_totals.DeviceTotals"

PLANTS = (
    _plant("SchedulingGates", "only one gate is named", **{"SchedulingGates.pre_enqueue": _first_named}),
    _plant("SchedulingGates", "gates do not reject", **{"SchedulingGates.pre_enqueue": lambda *_: None}),
    _plant("NodeUnschedulable", "tolerations of the cordon are ignored", _tolerates_cordon=lambda _: False),
    _plant(
        "NodeUnschedulable",
        "rejection is resolvable",
        UNSCHEDULABLE=Rejection("node(s) were unschedulable"),
    ),
    _plant("NodeName", "an empty node name rejects", **{"NodeName.filter": _named_or_nothing}),
    _plant("TaintToleration", "NoExecute is ignored", _HARD=("NoSchedule",)),
    _plant(
        "TaintToleration",
        "PreferNoSchedule rejects",
        _HARD=("NoSchedule", "NoExecute", "PreferNoSchedule"),
    ),
    _plant(
        "TaintToleration",
        "score is not reversed",
        **{"TaintToleration.normalizer": DefaultNormalizeScore()},
    ),
    _plant("NodeAffinity", "PreFilter returns no node names", _named_nodes=lambda _: None),
    _plant("NodeAffinity", "weights are ignored", **{"NodeAffinity.score": _unweighted}),
    _plant("NodeAffinity", "added affinity is ignored", any_matches=lambda *_: True),
    _elsewhere(
        "NodeAffinity",
        "all terms must match",
        "intree._required.any_matches",
        lambda terms, name, labels: all(term.matches(name, labels) for term in terms),
    ),
    _plant(
        "NodePorts",
        "protocols are ignored",
        _collide=lambda a, b: a.port == b.port and (a.ip == b.ip or "0.0.0.0" in (a.ip, b.ip)),
    ),
    _plant("NodePorts", "0.0.0.0 does not match other addresses", _collide=lambda a, b: a == b),
    _plant("NodeResourcesFit", "pod limit is one too low", **{"NodeResourcesFit.filter": _full_when_nearly}),
    _plant("NodeResourcesFit", "only the first reason is reported", _insufficient_resources=_first_short),
    _plant(
        "NodeResourcesFit",
        "rejection is always resolvable",
        _rejection=lambda reasons, resolvable: Rejection(*reasons),
    ),
    _plant("NodeResourcesFit", "mean is truncated", _rounded=lambda total, weights: total // weights),
    _plant("NodeResourcesFit", "scores are rounded up", _least_allocated=_rounded_up),
    _elsewhere("NodeResourcesFit", "sidecars count as init containers", "api.resources.is_sidecar", lambda _: False),
    _plant(
        "NodeResourcesBalancedAllocation",
        "balance without the pod is ignored",
        _gain=lambda after, _: after,
    ),
    _plant(
        "NodeResourcesBalancedAllocation",
        "evenness is rounded",
        _evenness=lambda shares: round((1 - (max(shares) - min(shares)) / 2) * 100) if shares else 100,
    ),
    _plant(
        "ImageLocality", "images are not scaled by their spread", _counted=lambda image, nodes: nodes.image_size(image)
    ),
    _plant("ImageLocality", "minimum threshold is 0", MIN_THRESHOLD=0),
    _plant("ImageLocality", "image volumes do not raise the maximum", _image_uses=_maximum_of_containers),
    _plant("ImageLocality", "missing tag is not latest", _tagged=lambda image: image),
    _plant("NodeDeclaredFeatures", "user namespaces need another feature", HOST_NETWORK="Other"),
    _plant(
        "NodeDeclaredFeatures",
        "every node declares all features",
        _features=lambda _: frozenset({"RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"}),
    ),
    _plant(
        "VolumeRestrictions",
        "read-only disks conflict",
        **{"Disk.conflicts": lambda a, b: a.kind == b.kind and not a.ids.isdisjoint(b.ids)},
    ),
    _elsewhere(
        "VolumeRestrictions",
        "ReadWriteOncePod is ignored",
        "intree.volumes.objects.READ_WRITE_ONCE_POD",
        "Nothing",
    ),
    _plant(
        "VolumeRestrictions",
        "reasons are swapped",
        CLAIM_IN_USE=Rejection("node(s) had no available disk"),
    ),
    _elsewhere(
        "NodeVolumeLimits",
        "VolumeAttachments are ignored",
        "intree.volumes.attached.AttachedVolumes._read",
        lambda *_: None,
    ),
    _plant("NodeVolumeLimits", "no driver has to be installed", must_be_installed=lambda _: False),
    _elsewhere(
        "VolumeBinding",
        "full storage is preferred",
        "intree.volumes.storage_use._utilization",
        lambda use: 100 - utilization(use),
    ),
    _elsewhere(
        "VolumeBinding",
        "claims of a class do not add up",
        "intree.volumes.search.use_of_capacity",
        dict,
    ),
    _elsewhere("VolumeBinding", "capacity is ignored", "intree.volumes.provision.volume_limit", lambda _: 1 << 62),
    _elsewhere(
        "VolumeBinding",
        "allowedTopologies are ignored",
        "intree.volumes.provision._allowed_topologies",
        lambda _: None,
    ),
    _elsewhere(
        "VolumeBinding",
        "volumes are accessible everywhere",
        "intree.volumes.search.is_accessible",
        lambda *_: True,
    ),
    _plant(
        "TaintToleration",
        "tolerated taints count",
        _count_untolerated=lambda _, taints: sum(taint.effect == "PreferNoSchedule" for taint in taints),
    ),
    _plant(
        "NodeResourcesFit",
        "ignored resources count",
        **{"NodeResourcesFit._is_ignored": lambda *_: False},
    ),
    _elsewhere("PodTopologySpread", "tainted nodes count", "intree.spread.nodes._HARD_TAINTS", ()),
    _elsewhere(
        "PodTopologySpread",
        "weight is too low",
        "intree.spread.score._weight",
        lambda domains: math.log(domains + 1),
    ),
    _plant(
        "NodeVolumeLimits",
        "rejection is not resolvable",
        TOO_MANY=Rejection("node(s) exceed max volume count", resolvable=False),
    ),
    _elsewhere(
        "NodeVolumeLimits",
        "limit is one too high",
        "intree.volumes.csi_nodes.limits_of",
        lambda csi_node: {driver: n + 1 for driver, n in limits_of(csi_node).items()},
    ),
    _plant("VolumeBinding", "immediate claims count as delayed", binding_mode=lambda _: "WaitForFirstConsumer"),
    _elsewhere(
        "PodTopologySpread",
        "scores are truncated",
        "intree.spread.score._rounded",
        math.trunc,
    ),
    _elsewhere(
        "PodTopologySpread",
        "pods on the host do not count",
        "intree.spread.score.ConstraintScore._pods_on",
        lambda *_: 0,
    ),
    _elsewhere(
        "PodTopologySpread",
        "node affinity policy is ignored",
        "intree.spread.nodes.allowed",
        lambda _, nodes: np.ones(len(nodes), np.bool_),
    ),
    _elsewhere("DefaultPreemption", "priorities are summed without offset", "intree.preemption.losses.OFFSET", 0),
    _plant("VolumeZone", "several zones are not split", ZONE_DELIMITER=","),
    _plant("VolumeZone", "zone labels are ignored", _pv_topologies=lambda _: []),
    _elsewhere(
        "PodTopologySpread",
        "maxSkew is one too high",
        "intree.spread.counts.Skew.max_match_count",
        property(lambda self: self.spread.max_skew + self.least_of_others - self.spread.self_match_count + 1),
    ),
    _elsewhere(
        "PodTopologySpread",
        "the pod does not count itself",
        "intree.spread.counts.Skew.of",
        staticmethod(lambda spread, *rest: skew_of(replace(spread, self_match_count=0), *rest)),
    ),
    _elsewhere(
        "PodTopologySpread",
        "reasons are swapped",
        "intree.spread.counts.MISSING_LABEL",
        spread_counts.MISMATCH,
    ),
    _plant(
        "InterPodAffinity",
        "existing anti-affinity is ignored",
        **{"ExistingAntiAffinityCount.of": lambda *_: 0},
    ),
    _plant(
        "InterPodAffinity", "no pod is the first of its group", **{"_PreFilterState.is_first": property(_never_first)}
    ),
    _plant(
        "InterPodAffinity",
        "reasons are swapped",
        ANTI_AFFINITY_RULES_NOT_MATCHED=affinity.EXISTING_ANTI_AFFINITY_RULES_NOT_MATCHED,
    ),
    _plant("InterPodAffinity", "scores are rounded", **{"ByRange.rescale": _rounded}),
    _elsewhere(
        "InterPodAffinity",
        "terms of existing pods do not score",
        "intree.affinity.counts.scoring_terms",
        lambda *_: NOTHING,
    ),
    _elsewhere(
        "InterPodAffinity",
        "namespaces have no labels",
        "intree.affinity.namespaces.NamespaceLister.chosen",
        lambda *_: frozenset(),
    ),
    _elsewhere(
        "InterPodAffinity",
        "selectors are not resolved",
        "intree.affinity.namespaces.NamespaceLister.resolved",
        lambda _, term: term,
    ),
    _plant(
        "DynamicResources",
        "PostFilter does not need PreFilter",
        **{"DynamicResources.post_filter": lambda *_: Rejection()},
    ),
    _plant("DynamicResources", "empty reason", NOTHING_TO_DEALLOCATE=Rejection("")),
    _claims("alternatives score the same", "attempt.allocation_score", lambda _: 0),
    _plant(
        "DynamicResources",
        "extended resources need no devices",
        **{"DynamicResources._needs_devices": lambda *_: False},
    ),
    _plant("DynamicResources", "drivers set no conditions", has_binding_conditions=lambda _: False),
    _claims("claims of other pods can be used", "objects.CachedClaim.is_owned_by", lambda *_: True),
    _claims("deleted claims can be used", "objects.CachedClaim.is_deleting", property(lambda _: False)),
    _claims("claims are reserved twice", "objects.CachedClaim.is_reserved_for", lambda *_: False),
    _claims("devices are usable on every node", "objects.AllocatedNodes.include", lambda *_: True),
    _claims("written claims have no finalizer", "claim_writer.FINALIZER", "example.com/other"),
    _claims("names of classes are no resources", "device_classes.CLASS_PREFIX", "example.com/none/"),
    _claims("init containers share no devices", "extended_resources.is_sidecar", lambda _: True),
    _elsewhere("NodeResourcesFit", "devices do not score", f"{_TOTALS}._totals", lambda *_: None),
    _elsewhere("NodeResourcesBalancedAllocation", "devices do not score", f"{_TOTALS}._totals", lambda *_: None),
    _elsewhere(
        "DefaultPreemption",
        "budgets are ignored",
        "intree.preemption.budgets.Budgets._covering",
        lambda *_: (),
    ),
    _elsewhere(
        "DefaultPreemption",
        "importance is reversed",
        "intree.preemption.victims.by_importance",
        lambda pods: by_importance(pods)[::-1],
    ),
    _elsewhere(
        "DefaultPreemption",
        "every budget counts each pod",
        "intree.preemption.budgets._is_violated",
        _counted_in_every_budget,
    ),
    _plant("DefaultPreemption", "victims are not counted", found_placement=lambda node, _: found_placement(node, 0)),
    _elsewhere("NodeName", "PreFilter keeps all nodes", "intree.node_name.NodeName.pre_filter", lambda *_: None),
    _elsewhere(
        "DefaultPreemption",
        "most victims are preferred",
        "intree.preemption.dry_run_result.least",
        lambda losses: np.argmax(np.where(np.isinf(losses[:, 3]), 0, losses[:, 3]), keepdims=True),
    ),
    _plant(
        "DefaultPreemption",
        "preemptionPolicy Never is ignored",
        **{"DefaultPreemption._not_eligible": lambda *_: ""},
    ),
)


@lru_cache(maxsize=1)
def _cases() -> list[tuple[set[str], Manifest]]:
    """Return the recorded cases with the plugins that they exercise, smallest first."""
    cases = [case for path in records.files() for case in records.read(path)]
    cases.sort(key=lambda case: len(json.dumps(case["document"]["objects"])))
    return [(_exercised(case), case) for case in cases]


def _exercised(case: Manifest) -> set[str]:
    """Return the plugins that the case was recorded for, that rejected a pod, or that gave nodes different scores."""
    words = (word for feature in case["features"] for word in feature.split(":"))
    tested = (subject for answer in case["answers"] for subject in subjects(answer))
    return NAMES.intersection([*words, *(word for subject in tested for word in subject.replace(":", " ").split())])


def _detected(plugin: str) -> Iterator[list[Difference]]:
    """Yield the differences in cases that exercise the plugin, without failed attempts, which any bug can cause."""
    for exercised, case in _cases():
        if plugin in exercised:
            found = compare(case["answers"], ours.evaluate(case["document"]))
            if found and all(difference.kind != "error" for difference in found):
                yield found


@pytest.mark.parametrize("plant", PLANTS, ids=str)
def test_planted_bug_is_detected(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ours, "_EVALUATOR", Evaluator())
    for name, value in plant.instead.items():
        monkeypatch.setattr(f"pyscheduler.{name}", value)
    assert next(_detected(plant.plugin), None), f"{plant} is not detected"


def test_recorded_cases_agree_without_planted_bug() -> None:
    assert not list(_detected("NodeAffinity"))


def test_every_plugin_has_planted_bugs() -> None:
    assert {plant.plugin for plant in PLANTS} == NAMES
