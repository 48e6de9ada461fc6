"""Feature gates: valid settings, errors and enabled plugins."""

from __future__ import annotations

import pytest

from pyscheduler.api import Plugin
from pyscheduler.config.gates import GATES, FeatureGateError, FeatureStage, parse
from pyscheduler.config.load import default, loads, show
from pyscheduler.config.problems import ConfigError
from pyscheduler.intree.composite_pod_groups import GangSchedulingOfTrees, GangSchedulingOfTreesByGroupPolicy
from pyscheduler.intree.dynamic_resources import DynamicResourcesOf136
from pyscheduler.intree.gang_scheduling import GangScheduling, GangSchedulingByGroupPolicy
from pyscheduler.intree.node_volume_limits import NodeVolumeLimitsByCount
from pyscheduler.intree.volume_binding import VolumeBindingWithoutScore
from tests.unit.config.files import names, profile

ON = "GenericWorkload=true"
ENABLED = profile("plugins: {multiPoint: {enabled: [{name: GangScheduling}]}}")


@pytest.mark.parametrize(
    ("texts", "on"),
    [
        ([], set()),
        ([""], set()),
        ([ON], {"GenericWorkload"}),
        (["kube:GenericWorkload=true"], {"GenericWorkload"}),
        ([" GenericWorkload = T ,"], {"GenericWorkload"}),
        (["VolumeLimitScaling=0", "GenericWorkload=True"], {"GenericWorkload", "VolumeLimitScaling"}),
        ([ON, "GenericWorkload=0"], set()),
        (["PodSchedulingReadiness=true,AllAlpha=false"], set()),
        (["SchedulerPreQueueingHints=true"], {"SchedulerPreQueueingHints"}),
        ([ON, "WorkloadWithJob=true"], {"GenericWorkload", "WorkloadWithJob"}),
    ],
)
def test_gates_are_parsed_like_the_flag_of_kube_scheduler(texts: list[str], on: set[str]) -> None:
    gates = parse(texts)
    assert {name for name in GATES if gates.on(name) != GATES[name].default} == on


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("GenericWorkloa=true", 'unrecognized feature gate: GenericWorkloa; did you mean "GenericWorkload"?'),
        (
            "GangScheduling=true",
            "unrecognized feature gate: GangScheduling; since Kubernetes 1.37 it is part of GenericWorkload",
        ),
        (
            "SidecarContainers=true",
            "unrecognized feature gate: SidecarContainers; "
            "since Kubernetes 1.37 it is always on, so remove the setting",
        ),
        ("GenericWorkload", "missing bool value for GenericWorkload"),
        ("GenericWorkload=yes", "invalid value of GenericWorkload=yes: must be true or false"),
        (
            "NodeDeclaredFeatures=false",
            "cannot set feature gate NodeDeclaredFeatures to false, feature is locked to true",
        ),
        (
            "OpportunisticBatching=false",
            "cannot set feature gate OpportunisticBatching to false, this scheduler cannot switch it",
        ),
        ("AllAlpha=true", "cannot set feature gate AllAlpha to true, this scheduler cannot switch it"),
    ],
)
def test_invalid_setting_is_rejected_in_one_line(text: str, error: str) -> None:
    with pytest.raises(FeatureGateError) as caught:
        parse([text])
    assert str(caught.value) == error


def test_unknown_gate_lists_all_gates() -> None:
    with pytest.raises(FeatureGateError) as caught:
        parse(["Foo=true"])
    head, _, gates = str(caught.value).partition("; known are ")
    assert head == "unrecognized feature gate: Foo"
    assert gates.split(", ") == sorted(GATES)


def test_default_of_each_stage() -> None:
    for gate in GATES.values():
        assert gate.default == {FeatureStage.ALPHA: False, FeatureStage.GA: True}.get(gate.stage, gate.default), (
            gate.name
        )
        assert not (gate.locked and gate.served), gate.name


def test_emulated_version_has_the_gates_of_that_version() -> None:
    before = parse([], "1.36")
    off = {name for name in before.known if before.on(name) != parse([]).on(name)}
    assert off == {"DRADeviceTaintRules", "StorageCapacityScoring", "VolumeLimitScaling"}
    assert parse(["NodeDeclaredFeatures=true"], "1.36").on("NodeDeclaredFeatures")
    with pytest.raises(FeatureGateError) as caught:
        parse(["CompositePodGroup=true"], "1.36")
    assert str(caught.value) == (
        "cannot set feature gate CompositePodGroup to true, feature is PreAlpha at emulated version 1.36"
    )


@pytest.mark.parametrize(
    ("gate", "plugin", "off"),
    [
        ("StorageCapacityScoring", "VolumeBinding", VolumeBindingWithoutScore),
        ("VolumeLimitScaling", "NodeVolumeLimits", NodeVolumeLimitsByCount),
        ("DRADeviceTaintRules", "DynamicResources", DynamicResourcesOf136),
    ],
)
def test_plugin_without_its_gate_is_another_one(gate: str, plugin: str, off: type[Plugin]) -> None:
    assert default(parse([f"{gate}=false"])).registry[plugin].cls is off
    assert default(parse([], "1.36")).registry[plugin].cls is off
    assert issubclass(off, default().registry[plugin].cls)


POD_GROUPS = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true"


@pytest.mark.parametrize(
    ("gates", "chosen"),
    [
        ("", GangScheduling),
        ("CompositePodGroup=true", GangSchedulingOfTrees),
        ("PodGroupPreemptionPolicy=true", GangSchedulingByGroupPolicy),
        ("CompositePodGroup=true,PodGroupPreemptionPolicy=true", GangSchedulingOfTreesByGroupPolicy),
    ],
)
def test_gates_of_pod_groups_choose_the_plugin(gates: str, chosen: type[Plugin]) -> None:
    assert default(parse([POD_GROUPS, gates])).registry["GangScheduling"].cls is chosen


@pytest.mark.parametrize(
    ("gates", "missing"),
    [
        ("TopologyAwareWorkloadScheduling", "GenericWorkload"),
        ("PodGroupPreemptionPolicy", "GenericWorkload"),
        ("CompositePodGroup", "GenericWorkload TopologyAwareWorkloadScheduling"),
        ("GenericWorkload=true,CompositePodGroup", "TopologyAwareWorkloadScheduling"),
    ],
)
def test_gate_without_those_that_it_needs_is_rejected(gates: str, missing: str) -> None:
    with pytest.raises(FeatureGateError) as caught:
        parse([f"{gates}=true"])
    name = gates.rpartition(",")[2]
    assert str(caught.value) == f"{name} is enabled, but depends on features that are disabled: [{missing}]"


def test_shape_is_rejected_while_its_gate_is_off() -> None:
    text = profile("pluginConfig: [{name: VolumeBinding, args: {shape: [{utilization: 0, score: 5}]}}]")
    assert loads(text).warnings == ()
    with pytest.raises(ConfigError, match="unexpected field `shape`, remove it or turn on the feature gate"):
        loads(text, gates=parse(["StorageCapacityScoring=false"]))


def test_gated_plugin_is_last_if_its_gate_is_on() -> None:
    before, after = default(), default(parse([ON]))
    for point in before.profiles[0].points:
        added = ["GangScheduling"] if point in ("preEnqueue", "podGroup", "permit") else []
        assert names(after, point) == names(before, point) + added, point
    assert "GangScheduling" not in before.registry


def test_gated_plugin_is_ignored_with_a_warning_if_its_gate_is_off() -> None:
    off, on = loads(ENABLED), loads(ENABLED, gates=parse([ON]))
    assert names(off, "permit") == []
    assert any('plugin "GangScheduling" does nothing' in warning for warning in off.warnings)
    assert names(on, "permit") == ["GangScheduling"]
    assert not any("does nothing" in warning for warning in on.warnings)


def test_gated_plugin_can_be_disabled() -> None:
    text = profile("plugins: {multiPoint: {disabled: [{name: GangScheduling}]}}")
    assert names(loads(text, gates=parse([ON])), "permit") == []


def test_shown_configuration_loads_with_the_same_gates() -> None:
    gates = parse([ON])
    loaded = default(gates)
    assert loads(show(loaded), gates=gates).profiles == loaded.profiles


def test_topology_plugins_run_with_their_gate() -> None:
    loaded = default(parse([f"{ON},TopologyAwareWorkloadScheduling=true"]))
    assert names(loaded, "placementGenerate") == ["TopologyPlacementGenerator"]
    assert names(loaded, "placementScore") == ["NodeResourcesFit", "PodGroupPodsCount"]
    assert names(default(parse([ON])), "placementGenerate") == []


def test_gate_that_depends_on_a_disabled_one_is_rejected() -> None:
    with pytest.raises(FeatureGateError) as caught:
        parse(["TopologyAwareWorkloadScheduling=true"])
    assert str(caught.value) == (
        "TopologyAwareWorkloadScheduling is enabled, but depends on features that are disabled: [GenericWorkload]"
    )


def test_pod_group_plugin_of_the_user_replaces_gang_scheduling() -> None:
    text = profile("plugins: {multiPoint: {enabled: [{name: PodGroups}]}}")
    loaded = loads(text, gates=parse([ON]))
    assert names(loaded, "podGroup") == ["PodGroups"]
    assert names(loaded, "permit") == ["GangScheduling"]
