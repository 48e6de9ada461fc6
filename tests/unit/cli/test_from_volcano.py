"""`pyscheduler config from-volcano` translates the configuration of Volcano's scheduler."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from pyscheduler.cli.program import app
from pyscheduler.cli.volcano.conf import parse
from pyscheduler.cli.volcano.draft import Result
from pyscheduler.cli.volcano.translate import Translation, translate
from pyscheduler.config.build import build_profiles
from pyscheduler.config.load import loads
from pyscheduler.config.problems import ConfigError
from pyscheduler.core.framework.handle import empty_handle

DEFAULT = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""
"""Of Volcano's Helm chart."""
NO_PREEMPTION = {"disabled": [{"name": "DefaultPreemption"}]}
CPU_AND_MEMORY = {"resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]}


def conf(plugins: str, actions: str = "allocate, preempt, reclaim") -> str:
    """Return a configuration with nodeorder, predicates, priority and these plugins."""
    lines = "\n".join(f"  {line}" for line in plugins.strip("\n").splitlines())
    first = "\n".join(f"  - name: {name}" for name in ("priority", "predicates", "nodeorder"))
    return f'actions: "{actions}"\ntiers:\n- plugins:\n{first}\n{lines}\n'


def translated(text: str) -> Translation:
    """Return the translation of a text, which must be a valid configuration."""
    translation = translate(parse(text), "volcano")
    loaded = loads(yaml.safe_dump(translation.configuration))
    assert loaded.warnings == ()
    build_profiles(loaded, empty_handle())
    return translation


def profile(text: str) -> dict[str, Any]:
    [found] = translated(text).configuration["profiles"]
    assert isinstance(found, dict)
    return found


def rows(text: str) -> dict[str, Result]:
    found = [(row.setting, row.result) for row in translated(text).rows]
    assert len(found) == len(dict(found))
    return dict(found)


def test_default_configuration() -> None:
    assert profile(DEFAULT) == {
        "schedulerName": "volcano",
        "plugins": {
            "postFilter": NO_PREEMPTION,
            "multiPoint": {"enabled": [{"name": "PodGroups"}, {"name": "Queues"}, {"name": "BinPack", "weight": 1}]},
        },
        "pluginConfig": [
            {"name": "Queues", "args": {"jobOrder": "drf"}},
            {"name": "BinPack", "args": CPU_AND_MEMORY},
        ],
    }
    assert rows(DEFAULT) == {
        "action enqueue": Result.DIFFERS,
        "action allocate": Result.BUILT_IN,
        "action backfill": Result.BUILT_IN,
        "no action preempt": Result.DIFFERS,
        "no action reclaim": Result.DIFFERS,
        "plugin priority": Result.BUILT_IN,
        "plugin gang": Result.APPLIED,
        "gang: enablePreemptable: false": Result.DIFFERS,
        "plugin conformance": Result.DIFFERS,
        "plugin overcommit": Result.MISSING,
        "plugin drf": Result.DIFFERS,
        "drf: enablePreemptable: false": Result.MISSING,
        "plugin predicates": Result.BUILT_IN,
        "plugin proportion": Result.DIFFERS,
        "plugin nodeorder": Result.APPLIED,
        "plugin binpack": Result.APPLIED,
    }


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        pytest.param(
            "- name: binpack\n  arguments:\n    binpack.weight: 10\n    binpack.cpu: 5\n    binpack.memory: 1\n"
            "    binpack.resources: nvidia.com/gpu, example.com/foo\n    binpack.resources.nvidia.com/gpu: 2\n"
            "    binpack.resources.example.com/foo: 3",
            {
                "plugins": {"multiPoint": {"enabled": [{"name": "BinPack", "weight": 10}]}},
                "pluginConfig": [
                    {
                        "name": "BinPack",
                        "args": {
                            "resources": [
                                {"name": "cpu", "weight": 5},
                                {"name": "memory", "weight": 1},
                                {"name": "nvidia.com/gpu", "weight": 2},
                                {"name": "example.com/foo", "weight": 3},
                            ]
                        },
                    }
                ],
            },
            id="binpack of the documentation",
        ),
        pytest.param(
            '- name: binpack\n  arguments:\n    binpack.weight: "2"\n    binpack.cpu: -1\n    binpack.memory: 0',
            {
                "plugins": {"multiPoint": {"enabled": [{"name": "BinPack", "weight": 2}]}},
                "pluginConfig": [{"name": "BinPack", "args": {"resources": [{"name": "cpu", "weight": 1}]}}],
            },
            id="binpack: text, negative and zero",
        ),
        pytest.param("- name: binpack\n  arguments: {binpack.weight: 0}", {}, id="binpack without a weight"),
        pytest.param("- name: binpack\n  enableNodeOrder: false", {}, id="binpack without node order"),
        pytest.param(
            "- name: task-topology\n  arguments: {task-topology.weight: 10}",
            {"plugins": {"multiPoint": {"enabled": [{"name": "TaskTopology", "weight": 10}]}}},
            id="task-topology",
        ),
        pytest.param(
            "- name: usage\n  arguments:\n    usage.weight: 7\n    cpu.weight: 2\n    thresholds: {cpu: 70, mem: 60}",
            {
                "plugins": {"multiPoint": {"enabled": [{"name": "Usage", "weight": 7}]}},
                "pluginConfig": [
                    {
                        "name": "Usage",
                        "args": {"thresholds": {"cpu": 70, "memory": 60}, "weights": {"cpu": 2, "memory": 1}},
                    }
                ],
            },
            id="usage",
        ),
        pytest.param(
            "- name: usage\n  enablePredicate: false\n  arguments: {}",
            {
                "plugins": {"multiPoint": {"enabled": [{"name": "Usage", "weight": 5}]}},
                "pluginConfig": [
                    {
                        "name": "Usage",
                        "args": {"thresholds": {"cpu": 0, "memory": 0}, "weights": {"cpu": 1, "memory": 1}},
                    }
                ],
            },
            id="usage without predicate",
        ),
        pytest.param(
            "- name: sla\n  arguments: {sla-waiting-time: 1h2m3s4ms5µs6ns}",
            {
                "plugins": {
                    "queueSort": {"enabled": [{"name": "SLASort"}], "disabled": [{"name": "PrioritySort"}]},
                },
                "pluginConfig": [{"name": "SLASort", "args": {"waitingSeconds": 3723}}],
            },
            id="sla",
        ),
        pytest.param("- name: sla\n  enableJobOrder: false", {}, id="sla without job order"),
        pytest.param(
            "- name: capacity\n  enableHierarchy: true",
            {"plugins": {"multiPoint": {"enabled": [{"name": "Queues"}, {"name": "PodGroups"}]}}},
            id="capacity, which requires pod groups",
        ),
    ],
)
def test_plugins_with_settings(plugins: str, expected: dict[str, Any]) -> None:
    assert profile(conf(plugins)) == {"schedulerName": "volcano", **expected}
    assert [row for row in translated(conf(plugins)).rows if row.meaning == "It has no effect."] == []


NODE_ORDER = (
    'actions: "allocate, preempt"\ntiers:\n- plugins:\n  - name: priority\n  - name: predicates\n  - name: nodeorder\n'
)


@pytest.mark.parametrize(
    ("arguments", "score", "strategy"),
    [
        pytest.param("", {}, None, id="Volcano's defaults are kube-scheduler's"),
        pytest.param("leastrequested.weight: 3", {"NodeResourcesFit": 3}, None, id="least requested"),
        pytest.param(
            "{leastrequested.weight: 0, mostrequested.weight: 2}", {"NodeResourcesFit": 2}, "MostAllocated", id="most"
        ),
        pytest.param("mostrequested.weight: 5", {"NodeResourcesFit": 4}, "MostAllocated", id="the difference counts"),
        pytest.param("mostrequested.weight: 1", {"NodeResourcesFit": 0}, None, id="equal weights: no effect"),
        pytest.param(
            "{nodeaffinity.weight: 5, podaffinity.weight: 1, balancedresource.weight: 0, tainttoleration.weight: 1,"
            " imagelocality.weight: 4, podtopologyspread.weight: 9}",
            {
                "NodeAffinity": 5,
                "InterPodAffinity": 1,
                "NodeResourcesBalancedAllocation": 0,
                "TaintToleration": 1,
                "ImageLocality": 4,
                "PodTopologySpread": 9,
            },
            None,
            id="others",
        ),
        pytest.param("nodeaffinity.weight: high", {}, None, id="invalid: the default, as in Volcano"),
    ],
)
def test_weights_of_nodeorder(arguments: str, score: dict[str, int], strategy: str | None) -> None:
    found = profile(NODE_ORDER + (f"    arguments: {arguments if '{' in arguments else '{' + arguments + '}'}\n"))
    points = found.get("plugins", {}).get("score", {})
    weights = {each["name"]: each["weight"] for each in points.get("enabled", [])}
    assert {**weights, **{each["name"]: 0 for each in points.get("disabled", [])}} == score
    args = {each["name"]: each["args"] for each in found.get("pluginConfig", [])}
    assert args == ({} if strategy is None else {"NodeResourcesFit": {"scoringStrategy": {"type": strategy}}})


def test_filters_are_disabled_by_arguments_of_predicates() -> None:
    text = NODE_ORDER.replace(
        "predicates\n",
        "predicates\n    arguments: {predicate.PodAffinityEnable: false, predicate.VolumeZoneEnable: 'false',"
        " predicate.NodePortsEnable: true, predicate.CacheEnable: true}\n",
    )
    assert profile(text)["plugins"] == {"filter": {"disabled": [{"name": "InterPodAffinity"}, {"name": "VolumeZone"}]}}
    assert rows(text)["predicates: predicate.CacheEnable: true"] is Result.MISSING
    assert "predicates: predicate.NodePortsEnable: true" not in rows(text)


def test_without_nodeorder_no_score_of_kube_scheduler_counts() -> None:
    text = 'actions: "allocate, preempt"\ntiers:\n- plugins: [{name: gang}]\n'
    disabled = {each["name"] for each in profile(text)["plugins"]["score"]["disabled"]}
    assert len(disabled) == 7
    spec = loads(yaml.safe_dump(translated(text).configuration)).profiles[0]
    assert disabled.isdisjoint(enabled.name for enabled in spec.points["score"])
    assert {"no plugin nodeorder", "no plugin predicates", "no plugin priority"} <= rows(text).keys()


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        pytest.param(
            "- name: tdm\n  arguments: {tdm.revocable-zone.rz1: '10:00-21:00'}", ("plugin tdm", "differs"), id="tdm"
        ),
        pytest.param("- name: mine", ("plugin mine", "missing"), id="unknown plugin"),
        pytest.param("- name: gang\n  enablejobready: false", ("gang: enablejobready: false", "missing"), id="no flag"),
        pytest.param("- name: gang\n  enableJobReady: false", ("gang: enableJobReady: false", "missing"), id="flag"),
        pytest.param(
            "- name: proportion\n  enableHierarchy: true", ("proportion: enableHierarchy: true", "built in"), id="tree"
        ),
        pytest.param("- name: drf", ("plugin drf", "differs"), id="DRF"),
        pytest.param("- name: drf\n  enableHierarchy: true", ("plugin drf", "differs"), id="HDRF"),
        pytest.param("- name: drf\n  enableJobOrder: false", ("plugin drf", "missing"), id="DRF without order"),
        pytest.param("- name: pdb", ("plugin pdb", "built in"), id="pdb"),
        pytest.param(
            "- name: overcommit\n  arguments: {overcommit-factor: 1.2}",
            ("overcommit: overcommit-factor: 1.2", "missing"),
            id="argument",
        ),
    ],
)
def test_settings_without_a_counterpart_are_listed(plugins: str, expected: tuple[str, str]) -> None:
    assert rows(conf(plugins))[expected[0]] == expected[1]


def test_flags_that_are_true_by_default_are_not_listed() -> None:
    assert "gang: enableJobReady: true" not in rows(conf("- name: gang\n  enableJobReady: true"))


def test_arguments_of_actions_and_metrics_are_listed() -> None:
    text = DEFAULT + "configurations:\n- name: allocate\n  arguments: {predicateErrorCacheEnable: false}\n"
    found = rows(text + "metrics: {type: prometheus, address: http://p}\n")
    assert found["configurations: allocate: predicateErrorCacheEnable: false"] is Result.BUILT_IN
    assert found["metrics: type: prometheus"] is Result.MISSING


def config_map(**data: str) -> str:
    return yaml.safe_dump(
        {"apiVersion": "v1", "kind": "ConfigMap", "data": {k.replace("_", "-"): v for k, v in data.items()}}
    )


def test_config_map_is_unwrapped() -> None:
    for text in (
        yaml.safe_dump({"kind": "ConfigMap", "data": {"volcano-scheduler.conf": DEFAULT, "README": "text"}}),
        config_map(only=DEFAULT),
    ):
        assert parse(text) == parse(DEFAULT)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "must have one YAML document, not 0", id="empty"),
        pytest.param("a: [", "not valid YAML", id="no YAML"),
        pytest.param("kind: Deployment", "is no configuration of Volcano's scheduler", id="another object"),
        pytest.param(config_map(a=DEFAULT, b=DEFAULT), "data: must have one key that ends in .conf", id="two keys"),
        pytest.param("kind: ConfigMap", "data: must have one key that ends in .conf.*none", id="no key"),
        pytest.param("tiers: []", "actions: must be names separated by commas", id="no actions"),
        pytest.param(
            'actions: "alocate"\ntiers: []', 'actions: alocate is no action.*did you mean "allocate"', id="typo"
        ),
        pytest.param('actions: "allocate"\ntiers: {}', "tiers: must be a list, not a mapping", id="no list"),
        pytest.param(
            'actions: "allocate"\ntiers: [{plugins: [gang]}]', r"tiers\[0\].plugins\[0\]: must have a name", id="name"
        ),
        pytest.param(
            'actions: "allocate"\ntiers: [{plugins: [{name: sla, arguments: 1h}]}]',
            r"tiers\[0\].plugins\[0\].arguments: must be a mapping",
            id="arguments",
        ),
    ],
)
def test_invalid_files_are_rejected(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert re.search(message, str(caught.value), re.S)


def test_command_writes_the_configuration_and_the_table(tmp_path: Path) -> None:
    file = tmp_path / "volcano.conf"
    file.write_text(DEFAULT, encoding="utf-8")
    result = CliRunner().invoke(app, ["config", "from-volcano", str(file), "--scheduler-name", "batch"])
    assert loads(result.stdout).profiles[0].scheduler_name == "batch"
    assert re.search(r"^plugin overcommit +missing +No job waits", result.stderr, re.M)


@pytest.mark.parametrize(
    ("plugin", "expected"),
    [
        ("- name: drf", {"jobOrder": "drf"}),
        ("- name: drf\n  enableHierarchy: true", {"queueOrder": "drf", "jobOrder": "drf"}),
        ("- name: drf\n  enableHierarchy: true\n  enableJobOrder: false", {"queueOrder": "drf"}),
    ],
    ids=["jobs", "jobs and queues", "queues"],
)
def test_order_by_dominant_shares(plugin: str, expected: dict[str, str]) -> None:
    [args] = [each["args"] for each in profile(conf(plugin))["pluginConfig"] if each["name"] == "Queues"]
    assert args == expected
