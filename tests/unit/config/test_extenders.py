"""Conversion of configured extenders and their effect on NodeResourcesFit."""

from __future__ import annotations

import pytest

from pyscheduler.config.build import build_profiles
from pyscheduler.config.extenders import build_extenders
from pyscheduler.config.load import loads
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.config.problems import ConfigError
from pyscheduler.core.extenders.extender import Extender
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.intree import NodeResourcesFit
from pyscheduler.intree.node_resources_fit import NodeResourcesFitArgs
from tests.unit.config.files import config

IGNORES = "managedResources: [{name: example.com/a, ignoredByScheduler: true}, {name: example.com/b}]"


def extenders(*items: str, more: str = "") -> LoadedConfig:
    return loads(config(f"extenders: [{', '.join(items)}]\n{more}"))


def test_extenders_that_are_not_ignorable_come_first() -> None:
    loaded = extenders(
        '{urlPrefix: "http://a", filterVerb: f, ignorable: true}',
        '{urlPrefix: "http://b", prioritizeVerb: p, weight: 3}',
        '{urlPrefix: "http://c", preemptVerb: p, managedResources: [{name: example.com/a}]}',
        '{urlPrefix: "http://d", bindVerb: b, ignorable: true}',
    )
    assert build_extenders(loaded.configuration) == (
        Extender("http://b", place=1, prioritizes=True, weight=3),
        Extender("http://c", place=2, preempts=True, weight=0, managed=frozenset({"example.com/a"})),
        Extender("http://a", place=0, filters=True, weight=0, ignorable=True),
        Extender("http://d", place=3, weight=0, ignorable=True),
    )


def test_extenders_cause_no_warning() -> None:
    assert not [w for w in extenders('{urlPrefix: "http://a", filterVerb: f}').warnings if "extender" in w]


def fit_args(loaded: LoadedConfig) -> NodeResourcesFitArgs:
    (built,) = build_profiles(loaded, empty_handle())
    (fit,) = (plugin for plugin in built.plugins if isinstance(plugin, NodeResourcesFit))
    args: NodeResourcesFitArgs = fit.args
    return args


OWN = """
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {ignoredResources: [example.com/own], ignoredResourceGroups: [example.org]}
"""


def test_ignored_managed_resources_replace_those_of_node_resources_fit() -> None:
    args = fit_args(extenders(f'{{urlPrefix: "http://a", filterVerb: f, {IGNORES}}}', more=OWN))
    assert args.ignored_resources == ("example.com/a",)
    assert args.ignored_resource_groups == ("example.org",)


def test_node_resources_fit_keeps_its_ignored_resources_without_managed_ones() -> None:
    args = fit_args(extenders('{urlPrefix: "http://a", filterVerb: f}', more=OWN))
    assert args.ignored_resources == ("example.com/own",)


def test_extenders_beside_a_quota_plugin_are_an_error_with_reason_and_remedy() -> None:
    queues = "{schedulerName: batch, plugins: {multiPoint: {enabled: [{name: Queues}, {name: PodGroups}]}}}"
    loaded = extenders(
        '{urlPrefix: "http://a", filterVerb: f}', more=f"profiles: [{{schedulerName: default-scheduler}}, {queues}]"
    )
    with pytest.raises(ConfigError) as error:
        build_profiles(loaded, empty_handle())
    assert [str(problem) for problem in error.value.problems] == [
        "extenders: cannot be combined with the quota plugin Queues of profiles[1], which schedules each pod as a pod "
        "group; extenders are not called for pod groups. Remove the extenders or disable Queues, or run a second "
        "scheduler with another schedulerName for the pods that need extenders"
    ]


def test_quota_plugin_without_extenders_is_built() -> None:
    loaded = loads(config("profiles: [{plugins: {multiPoint: {enabled: [{name: Queues}, {name: PodGroups}]}}}]"))
    assert [profile.quota is not None for profile in build_profiles(loaded, empty_handle())] == [True]
