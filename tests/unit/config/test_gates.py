"""Feature gates: valid settings, errors and enabled plugins."""

from __future__ import annotations

import pytest

from pyscheduler.config.gates import GATES, FeatureGateError, FeatureGates, FeatureStage, parse
from pyscheduler.config.load import default, loads, show
from tests.unit.config.files import names, profile

BOTH = "GenericWorkload=true,GangScheduling=true"
ENABLED = profile("plugins: {multiPoint: {enabled: [{name: GangScheduling}]}}")


@pytest.mark.parametrize(
    ("texts", "on"),
    [
        ([], set()),
        ([""], set()),
        ([BOTH], {"GenericWorkload", "GangScheduling"}),
        (["kube:GenericWorkload=true"], {"GenericWorkload"}),
        ([" GenericWorkload = T ,"], {"GenericWorkload"}),
        (["GangScheduling=1", "GenericWorkload=True"], {"GenericWorkload", "GangScheduling"}),
        ([BOTH, "GangScheduling=0"], {"GenericWorkload"}),
        (["SidecarContainers=true,AllAlpha=false"], set()),
    ],
)
def test_gates_are_parsed_like_the_flag_of_kube_scheduler(texts: list[str], on: set[str]) -> None:
    gates = parse(texts)
    assert {name for name in GATES if gates.on(name) != GATES[name].default} == on


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("GangSchedulin=true", 'unrecognized feature gate: GangSchedulin; did you mean "GangScheduling"?'),
        ("GenericWorkload", "missing bool value for GenericWorkload"),
        ("GenericWorkload=yes", "invalid value of GenericWorkload=yes: must be true or false"),
        (
            "GangScheduling=true",
            "GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]",
        ),
        ("SidecarContainers=false", "cannot set feature gate SidecarContainers to false, feature is locked to true"),
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
        assert set(gate.needs) <= set(GATES), gate.name


def test_gated_plugin_is_last_if_its_gate_is_on() -> None:
    before, after = default(), default(parse([BOTH]))
    for point in before.profiles[0].points:
        added = ["GangScheduling"] if point in ("preEnqueue", "permit") else []
        assert names(after, point) == names(before, point) + added, point
    assert "GangScheduling" not in before.registry
    assert "GangScheduling" not in default(parse(["GenericWorkload=true"])).registry


def test_gated_plugin_is_ignored_with_a_warning_if_its_gate_is_off() -> None:
    off, on = loads(ENABLED), loads(ENABLED, gates=parse([BOTH]))
    assert names(off, "permit") == []
    assert any('plugin "GangScheduling" does nothing' in warning for warning in off.warnings)
    assert names(on, "permit") == ["GangScheduling"]
    assert not any("does nothing" in warning for warning in on.warnings)


def test_gated_plugin_can_be_disabled() -> None:
    text = profile("plugins: {multiPoint: {disabled: [{name: GangScheduling}]}}")
    assert names(loads(text, gates=parse([BOTH])), "permit") == []


def test_shown_configuration_loads_with_the_same_gates() -> None:
    gates = parse([BOTH])
    loaded = default(gates)
    assert loads(show(loaded), gates=gates).profiles == loaded.profiles


def test_limitation_of_generic_workload_is_one_warning() -> None:
    assert default().warnings == ()
    (warning,) = default(FeatureGates({"GenericWorkload": True})).warnings
    assert warning.startswith("feature gate GenericWorkload: ")
