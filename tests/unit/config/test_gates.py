"""Feature gates: what can be asked for, in which words the rest is refused, and what they turn on."""

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
def test_gates_are_set_as_kube_schedulers_flag_sets_them(texts: list[str], on: set[str]) -> None:
    gates = parse(texts)
    assert {name for name in GATES if gates.on(name) != GATES[name].default} == on


@pytest.mark.parametrize(
    ("text", "says"),
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
def test_what_cannot_be_followed_is_refused_in_one_line(text: str, says: str) -> None:
    with pytest.raises(FeatureGateError) as caught:
        parse([text])
    assert str(caught.value) == says


def test_a_gate_that_is_like_no_other_is_told_all_there_are() -> None:
    with pytest.raises(FeatureGateError) as caught:
        parse(["Foo=true"])
    head, _, known = str(caught.value).partition("; known are ")
    assert head == "unrecognized feature gate: Foo"
    assert known.split(", ") == sorted(GATES)


def test_alpha_is_off_and_ga_is_on_unless_told_otherwise() -> None:
    for gate in GATES.values():
        assert gate.default == {FeatureStage.ALPHA: False, FeatureStage.GA: True}.get(gate.stage, gate.default), (
            gate.name
        )
        assert not (gate.locked and gate.served), gate.name
        assert set(gate.needs) <= set(GATES), gate.name


def test_the_plugin_comes_last_where_its_gate_is_on() -> None:
    before, after = default(), default(parse([BOTH]))
    for point in before.profiles[0].points:
        added = ["GangScheduling"] if point in ("preEnqueue", "permit") else []
        assert names(after, point) == names(before, point) + added, point
    assert "GangScheduling" not in before.registry
    assert "GangScheduling" not in default(parse(["GenericWorkload=true"])).registry


def test_a_configuration_that_names_it_is_at_rest_while_the_gate_is_off() -> None:
    off, on = loads(ENABLED), loads(ENABLED, gates=parse([BOTH]))
    assert names(off, "permit") == []
    assert any('plugin "GangScheduling" does nothing' in warning for warning in off.warnings)
    assert names(on, "permit") == ["GangScheduling"]
    assert not any("does nothing" in warning for warning in on.warnings)


def test_it_can_be_disabled_where_the_gate_is_on() -> None:
    text = profile("plugins: {multiPoint: {disabled: [{name: GangScheduling}]}}")
    assert names(loads(text, gates=parse([BOTH])), "permit") == []


def test_what_is_shown_loads_again_with_the_same_gates() -> None:
    gates = parse([BOTH])
    loaded = default(gates)
    assert loads(show(loaded), gates=gates).profiles == loaded.profiles


def test_tried_one_by_one_is_said_once() -> None:
    assert default().warnings == ()
    (said,) = default(FeatureGates({"GenericWorkload": True})).warnings
    assert said.startswith("feature gate GenericWorkload: ")
