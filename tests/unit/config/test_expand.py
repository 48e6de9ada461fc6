"""Which plugins run at each point, in which order and with which weight: kube-scheduler's merge and expansion rules."""

from __future__ import annotations

import pytest

from pyscheduler import intree
from pyscheduler.config.build import build_profiles
from pyscheduler.config.load import default, loads, show
from pyscheduler.core.framework.handle import CoreHandle
from pyscheduler.core.framework.registry import POINTS
from tests.unit.config.files import config, names, only_problem, profile, weights

CHATTY, SECOND = "tests.unit.config.plugins:Chatty", "tests.unit.config.plugins:Second"
KUBE_ORDER = [
    "SchedulingGates",
    "PrioritySort",
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "DynamicResources",
    "DefaultPreemption",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
    "DefaultBinder",
    "NodeDeclaredFeatures",
]
KUBE_WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
}


def known(plugins: list[str]) -> list[str]:
    """Those of kube-scheduler's plugins that are there; the list grows with them, the order does not change."""
    return [p for p in plugins if p in {cls.name for cls in intree.PLUGINS}]


def test_the_default_profile_is_kube_schedulers_default_set_as_far_as_it_is_there() -> None:
    loaded = default()
    served = {cls.name: cls for cls in intree.PLUGINS}
    for point, base in POINTS.items():
        assert names(loaded, point) == [n for n in known(KUBE_ORDER) if issubclass(served[n], base)], point
    assert weights(loaded) == {n: KUBE_WEIGHTS.get(n, 1) for n in names(loaded, "score")}
    assert loaded.profiles[0].scheduler_name == "default-scheduler"
    assert loaded.warnings == ()


def test_every_default_plugin_is_either_there_or_known_to_come() -> None:
    assert set(KUBE_ORDER) <= {cls.name for cls in intree.PLUGINS} | set(intree.UNSUPPORTED_PLUGINS)


def test_an_own_multi_point_plugin_runs_after_the_defaults_at_every_point_that_it_serves() -> None:
    loaded = loads(profile(f"plugins: {{multiPoint: {{enabled: [{{name: '{CHATTY}'}}, {{name: '{SECOND}'}}]}}}}"))
    assert names(loaded, "filter")[-2:] == ["Chatty", "Second"]
    assert names(loaded, "score")[-1] == "Chatty"
    assert names(loaded, "preFilter")[-1] == "Second"
    assert "Second" not in names(loaded, "score")


def test_a_default_plugin_that_is_enabled_again_is_replaced_where_it_stands() -> None:
    before = names(default(), "score")
    loaded = loads(profile("plugins: {multiPoint: {enabled: [{name: NodeAffinity, weight: 9}]}}"))
    assert names(loaded, "score") == before
    assert weights(loaded)["NodeAffinity"] == 9


@pytest.mark.parametrize(
    ("plugins", "filters"),
    [
        pytest.param("multiPoint: {disabled: [{name: NodePorts}]}", "-NodePorts", id="a default, everywhere"),
        pytest.param("filter: {disabled: [{name: NodePorts}]}", "-NodePorts", id="a default, at the point"),
        pytest.param("filter: {disabled: [{name: '*'}]}", "", id="all, at the point"),
        pytest.param(
            "filter: {disabled: [{name: '*'}], enabled: [{name: NodePorts}]}",
            "NodePorts",
            id="all but one, at the point",
        ),
        pytest.param(
            "multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}, {name: DefaultBinder}, "
            "{name: NodePorts}]}",
            "NodePorts",
            id="all defaults, everywhere, but for some",
        ),
        pytest.param("filter: {disabled: [{name: Unheard}]}", "-", id="something that is not there"),
        pytest.param(
            "multiPoint: {disabled: [{name: NodePorts}], enabled: [{name: NodePorts}]}",
            "-NodePorts +NodePorts",
            id="disabled and enabled is enabled, at the end",
        ),
    ],
)
def test_what_is_disabled_does_not_run(plugins: str, filters: str) -> None:
    """`filters` is the whole list, or with - and + what is gone from the default one and what comes after it."""
    loaded = loads(profile(f"plugins:\n  {plugins}"))
    words = filters.split()
    expected = [w for w in words if w[0] not in "-+"]
    if filters.startswith("-"):
        gone, more = [w[1:] for w in words if w[0] == "-"], [w[1:] for w in words if w[0] == "+"]
        expected = [n for n in names(default(), "filter") if n not in gone] + more
    assert names(loaded, "filter") == expected


def test_explicit_plugins_that_multi_point_has_too_come_first_and_others_last() -> None:
    loaded = loads(
        profile(f"""
            plugins:
              filter:
                enabled: [{{name: "{CHATTY}"}}, {{name: NodePorts}}, {{name: NodeName}}]
            """)
    )
    rest = [n for n in names(default(), "filter") if n not in ("NodePorts", "NodeName")]
    assert names(loaded, "filter") == ["NodePorts", "NodeName", *rest, "Chatty"]


@pytest.mark.parametrize(
    ("plugins", "plugin", "weight"),
    [
        ("score: {enabled: [{name: TaintToleration, weight: 8}]}", "TaintToleration", 8),
        ("score: {enabled: [{name: TaintToleration}]}", "TaintToleration", 1),
        ("score: {enabled: [{name: TaintToleration, weight: 0}]}", "TaintToleration", 1),
        ("multiPoint: {enabled: [{name: TaintToleration}]}", "TaintToleration", 1),
        (
            "{multiPoint: {enabled: [{name: TaintToleration, weight: 5}]}, "
            "score: {enabled: [{name: TaintToleration, weight: 6}]}}",
            "TaintToleration",
            6,
        ),
        (f"score: {{enabled: [{{name: '{CHATTY}'}}]}}", "Chatty", 7),
        (f"multiPoint: {{enabled: [{{name: '{CHATTY}', weight: 2}}]}}", "Chatty", 2),
        (f"multiPoint: {{enabled: [{{name: '{CHATTY}', weight: 0}}]}}", "Chatty", 7),
    ],
)
def test_the_weight_said_last_and_nearest_wins(plugins: str, plugin: str, weight: int) -> None:
    loaded = loads(profile(f"plugins:\n  {plugins}"))
    assert weights(loaded)[plugin] == weight


def test_a_plugin_that_multi_point_names_twice_is_refused_once() -> None:
    text = profile(f"plugins: {{multiPoint: {{enabled: [{{name: '{CHATTY}'}}, {{name: '{CHATTY}'}}]}}}}")
    expected = 'profiles[0].plugins.multiPoint.enabled[1].name: plugin "Chatty" already registered as "FilterPlugin"'
    assert only_problem(text) == expected


def test_every_plugin_of_a_profile_has_its_args() -> None:
    loaded = loads(
        profile("""
            plugins: {multiPoint: {enabled: [{name: Gang}]}}
            pluginConfig:
            - name: NodeResourcesFit
              args: {kind: NodeResourcesFitArgs, scoringStrategy: {type: MostAllocated}}
            """)
    )
    spec = loaded.profiles[0]
    assert set(spec.args) == set(spec.plugins)
    assert spec.args["NodeResourcesFit"].scoring_strategy.type == "MostAllocated"
    assert [r.name for r in spec.args["NodeResourcesFit"].scoring_strategy.resources] == ["cpu", "memory"]
    assert spec.args["Gang"].permit_waiting_time_seconds == 60


@pytest.mark.parametrize(
    ("kube", "own", "ours", "share"),
    [
        pytest.param("", "", "", None, id="every node is looked at"),
        pytest.param("percentageOfNodesToScore: 30", "", "", 30, id="given for all"),
        pytest.param("percentageOfNodesToScore: 0", "", "", 0, id="adaptive"),
        pytest.param("", "percentageOfNodesToScore: 0", "", 0, id="given for one"),
        pytest.param("percentageOfNodesToScore: 30", "percentageOfNodesToScore: 0", "", 0, id="its own goes first"),
        pytest.param("", "", "nodeOrder: KubeScheduler", 0, id="asked for by name"),
        pytest.param("percentageOfNodesToScore: 30", "", "nodeOrder: KubeScheduler", 30, id="by name and share"),
        pytest.param("percentageOfNodesToScore: 30", "", "nodeOrder: EveryNode", None, id="refused by name"),
    ],
)
def test_who_asks_for_a_share_of_the_nodes_gets_kube_schedulers_order(
    kube: str, own: str, ours: str, share: int | None
) -> None:
    loaded = loads(config(f"{kube}\nprofiles: [{{{own}}}]", ours))
    assert loaded.profiles[0].percentage_of_nodes_to_score == share
    assert build_profiles(loaded, CoreHandle())[0].percentage_of_nodes_to_score == share
    assert loads(show(loaded)).profiles[0].percentage_of_nodes_to_score == share


def test_a_share_that_has_no_effect_is_warned_of() -> None:
    loaded = loads(config("leaderElection: {leaderElect: false}\npercentageOfNodesToScore: 30", "nodeOrder: EveryNode"))
    assert loaded.warnings == ("nodeOrder: percentageOfNodesToScore has no effect: EveryNode scores all of them",)
    assert loads(config("leaderElection: {leaderElect: false}", "nodeOrder: EveryNode")).warnings == ()


def test_an_order_that_is_unheard_of() -> None:
    assert only_problem(config("", "nodeOrder: Random")) == 'nodeOrder: "Random" is not one of EveryNode, KubeScheduler'
