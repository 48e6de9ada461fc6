"""Plugins of each point with order and weights: kube-scheduler's rules for merging and expansion."""

from __future__ import annotations

import pytest

from pyscheduler import intree
from pyscheduler.config.build import build_profiles
from pyscheduler.config.load import default, loads, show
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.core.framework.registry import POINTS
from tests.unit.config.files import config, names, only_problem, profile, weights

CHATTY, SECOND = "tests.unit.config.plugins:Chatty", "tests.unit.config.plugins:Second"
KUBE_ORDER = [
    "SchedulingGates",
    "PrioritySort",
    "NodeName",
    "NodeUnschedulable",
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


def implemented(plugins: list[str]) -> list[str]:
    """Return those of kube-scheduler's plugins that are implemented, in order."""
    return [p for p in plugins if p in {cls.name for cls in intree.PLUGINS}]


def test_default_profile_is_that_of_kube_scheduler() -> None:
    loaded = default()
    classes = {cls.name: cls for cls in intree.PLUGINS}
    for point, base in POINTS.items():
        assert names(loaded, point) == [n for n in implemented(KUBE_ORDER) if issubclass(classes[n], base)], point
    assert weights(loaded) == {n: KUBE_WEIGHTS.get(n, 1) for n in names(loaded, "score")}
    assert loaded.profiles[0].scheduler_name == "default-scheduler"
    assert loaded.warnings == ()


def test_every_default_plugin_is_implemented_or_listed_as_unsupported() -> None:
    assert set(KUBE_ORDER) <= {cls.name for cls in intree.PLUGINS}


def test_multi_point_plugin_runs_after_the_defaults_at_each_of_its_points() -> None:
    loaded = loads(profile(f"plugins: {{multiPoint: {{enabled: [{{name: '{CHATTY}'}}, {{name: '{SECOND}'}}]}}}}"))
    assert names(loaded, "filter")[-2:] == ["Chatty", "Second"]
    assert names(loaded, "score")[-1] == "Chatty"
    assert names(loaded, "preFilter")[-1] == "Second"
    assert "Second" not in names(loaded, "score")


def test_re_enabled_default_plugin_keeps_its_position() -> None:
    before = names(default(), "score")
    loaded = loads(profile("plugins: {multiPoint: {enabled: [{name: NodeAffinity, weight: 9}]}}"))
    assert names(loaded, "score") == before
    assert weights(loaded)["NodeAffinity"] == 9


@pytest.mark.parametrize(
    ("plugins", "filters"),
    [
        pytest.param("multiPoint: {disabled: [{name: NodePorts}]}", "-NodePorts", id="default in multiPoint"),
        pytest.param("filter: {disabled: [{name: NodePorts}]}", "-NodePorts", id="default at the point"),
        pytest.param("filter: {disabled: [{name: '*'}]}", "", id="all at the point"),
        pytest.param(
            "filter: {disabled: [{name: '*'}], enabled: [{name: NodePorts}]}",
            "NodePorts",
            id="all but one at the point",
        ),
        pytest.param(
            "multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}, {name: DefaultBinder}, "
            "{name: NodePorts}]}",
            "NodePorts",
            id="all defaults in multiPoint except some",
        ),
        pytest.param("filter: {disabled: [{name: Unheard}]}", "-", id="unknown plugin"),
        pytest.param(
            "multiPoint: {disabled: [{name: NodePorts}], enabled: [{name: NodePorts}]}",
            "-NodePorts +NodePorts",
            id="disabled and enabled plugin is last",
        ),
    ],
)
def test_disabled_plugins_do_not_run(plugins: str, filters: str) -> None:
    """`filters` is the complete list, or with `-` and `+` the removed and appended names."""
    loaded = loads(profile(f"plugins:\n  {plugins}"))
    words = filters.split()
    expected = [w for w in words if w[0] not in "-+"]
    if filters.startswith("-"):
        removed, appended = [w[1:] for w in words if w[0] == "-"], [w[1:] for w in words if w[0] == "+"]
        expected = [n for n in names(default(), "filter") if n not in removed] + appended
    assert names(loaded, "filter") == expected


def test_explicit_plugins_in_multi_point_come_first_and_others_last() -> None:
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
def test_weight_at_score_overrides_multi_point_and_default(plugins: str, plugin: str, weight: int) -> None:
    loaded = loads(profile(f"plugins:\n  {plugins}"))
    assert weights(loaded)[plugin] == weight


def test_plugin_twice_in_multi_point_is_reported_once() -> None:
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
        pytest.param("", "", "", None, id="every node"),
        pytest.param("percentageOfNodesToScore: 30", "", "", 30, id="global percentage"),
        pytest.param("percentageOfNodesToScore: 0", "", "", 0, id="adaptive"),
        pytest.param("", "percentageOfNodesToScore: 0", "", 0, id="percentage of the profile"),
        pytest.param(
            "percentageOfNodesToScore: 30",
            "percentageOfNodesToScore: 0",
            "",
            0,
            id="profile overrides global percentage",
        ),
        pytest.param("", "", "nodeOrder: KubeScheduler", 0, id="nodeOrder KubeScheduler"),
        pytest.param(
            "percentageOfNodesToScore: 30",
            "",
            "nodeOrder: KubeScheduler",
            30,
            id="nodeOrder KubeScheduler with percentage",
        ),
        pytest.param(
            "percentageOfNodesToScore: 30", "", "nodeOrder: EveryNode", None, id="nodeOrder EveryNode with percentage"
        ),
    ],
)
def test_percentage_or_node_order_selects_the_order_of_kube_scheduler(
    kube: str, own: str, ours: str, share: int | None
) -> None:
    loaded = loads(config(f"{kube}\nprofiles: [{{{own}}}]", ours))
    assert loaded.profiles[0].percentage_of_nodes_to_score == share
    assert build_profiles(loaded, empty_handle())[0].percentage_of_nodes_to_score == share
    assert loads(show(loaded)).profiles[0].percentage_of_nodes_to_score == share


def test_percentage_without_effect_is_a_warning() -> None:
    loaded = loads(config("leaderElection: {leaderElect: false}\npercentageOfNodesToScore: 30", "nodeOrder: EveryNode"))
    assert loaded.warnings == ("nodeOrder: percentageOfNodesToScore has no effect: EveryNode scores all of them",)
    assert loads(config("leaderElection: {leaderElect: false}", "nodeOrder: EveryNode")).warnings == ()


def test_unknown_node_order_is_rejected() -> None:
    assert only_problem(config("", "nodeOrder: Random")) == 'nodeOrder: "Random" is not one of EveryNode, KubeScheduler'


@pytest.mark.parametrize(
    ("ours", "cached"),
    [("", True), ("resultCache: On", True), ("resultCache: Off", False), ("resultCache: false", False)],
)
def test_result_cache_is_on_unless_switched_off(ours: str, cached: bool) -> None:
    loaded = loads(
        config("leaderElection: {leaderElect: false}\nprofiles: [{schedulerName: a}, {schedulerName: b}]", ours)
    )
    assert [profile.caches_results for profile in build_profiles(loaded, empty_handle())] == [cached, cached]
    assert loads(show(loaded)).python.result_cache is cached
    assert any("resultCache" in warning for warning in loaded.warnings) is not cached


def test_result_cache_is_a_yaml_boolean() -> None:
    assert only_problem(config("", 'resultCache: "Off"')) == 'resultCache: must be true or false, not "Off"'
