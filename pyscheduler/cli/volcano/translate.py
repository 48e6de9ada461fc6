"""Translation of the configuration of Volcano's scheduler into a KubeSchedulerConfiguration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from pyscheduler.cli.volcano.conf import VolcanoConf, VolcanoPlugin
from pyscheduler.cli.volcano.draft import Draft, Result, Row
from pyscheduler.cli.volcano.statements import ACTIONS, ARGUMENTS_OF_ACTIONS, FLAGS, PLUGINS
from pyscheduler.config.durations import parse_duration

_NODE_ORDER: Final[Mapping[str, tuple[str, int, int]]] = {
    "nodeaffinity.weight": ("NodeAffinity", 2, 2),
    "podaffinity.weight": ("InterPodAffinity", 2, 2),
    "balancedresource.weight": ("NodeResourcesBalancedAllocation", 1, 1),
    "tainttoleration.weight": ("TaintToleration", 3, 3),
    "imagelocality.weight": ("ImageLocality", 1, 1),
    "podtopologyspread.weight": ("PodTopologySpread", 2, 2),
}
"""Score plugin of each weight of nodeorder, the default of Volcano, and that of a profile."""
_PREDICATES: Final[Mapping[str, str]] = {
    "predicate.NodeAffinityEnable": "NodeAffinity",
    "predicate.NodePortsEnable": "NodePorts",
    "predicate.TaintTolerationEnable": "TaintToleration",
    "predicate.PodAffinityEnable": "InterPodAffinity",
    "predicate.NodeVolumeLimitsEnable": "NodeVolumeLimits",
    "predicate.VolumeZoneEnable": "VolumeZone",
    "predicate.PodTopologySpreadEnable": "PodTopologySpread",
    "predicate.VolumeBindingEnable": "VolumeBinding",
    "predicate.DynamicResourceAllocationEnable": "DynamicResources",
}
_FIT: Final = "NodeResourcesFit"


class Translation(NamedTuple):
    """A configuration, and a row for each setting of Volcano's."""

    configuration: dict[str, Any]
    rows: tuple[Row, ...]


def translate(conf: VolcanoConf, scheduler_name: str) -> Translation:
    """Return the configuration with which this scheduler comes closest to Volcano's."""
    draft = Draft()
    _translate_actions(conf, draft)
    for plugin in conf.plugins:
        _translate_plugin(plugin, draft)
    _translate_missing_plugins(conf, draft)
    for each in conf.configurations:
        for name, value in each.arguments.items():
            result, meaning = ARGUMENTS_OF_ACTIONS.get(name, (Result.MISSING, "It has no effect."))
            draft.add(f"configurations: {each.name}: {_shown(name, value)}", result, meaning)
    for name, value in conf.metrics.items():
        draft.add(f"metrics: {_shown(name, value)}", Result.MISSING, "Usage reads NodeMetric objects of Koordinator.")
    return Translation(draft.configuration(scheduler_name), tuple(draft.rows))


def _translate_actions(conf: VolcanoConf, draft: Draft) -> None:
    for action in conf.actions:
        draft.add(f"action {action}", *ACTIONS[action])
    if not {"preempt", "gangPreempt"} & {*conf.actions}:
        draft.disable("DefaultPreemption", "postFilter")
        text = "DefaultPreemption is disabled. Groups still preempt, unless their preemptionPolicy is Never."
        draft.add("no action preempt", Result.DIFFERS, text)
    if not {"reclaim", "gangReclaim"} & {*conf.actions} and _has_queues(conf):
        text = "Queues reclaims nevertheless. Set reclaimable: false on queues from which nothing may be reclaimed."
        draft.add("no action reclaim", Result.DIFFERS, text)


def _has_queues(conf: VolcanoConf) -> bool:
    return conf.plugin("proportion") is not None or conf.plugin("capacity") is not None


def _translate_plugin(plugin: VolcanoPlugin, draft: Draft) -> None:
    translated: Iterable[str] = ()
    if plugin.name in _TRANSLATED:
        translated = _TRANSLATED[plugin.name](plugin, draft)
    else:
        unknown = (Result.MISSING, "The plugin is not one of Volcano's own.")
        draft.add(f"plugin {plugin.name}", *PLUGINS.get(plugin.name, unknown))
    for name, value in plugin.arguments.items():
        if name not in translated:
            draft.add(f"{plugin.name}: {_shown(name, value)}", Result.MISSING, "It has no effect.")
    for name, value in plugin.flags.items():
        if name not in translated and (name not in FLAGS or not plugin.enables(name) or name == "enableHierarchy"):
            draft.add(f"{plugin.name}: {_shown(name, value)}", *_flag(plugin.name, name))


def _flag(plugin: str, flag: str) -> tuple[Result, str]:
    """Return what becomes of a flag that is not true by default."""
    if flag not in FLAGS:
        return Result.MISSING, "It is no flag of Volcano, which ignores it."
    if flag == "enableHierarchy" and plugin in ("proportion", "capacity"):
        return Result.BUILT_IN, "The field parent of a Queue counts."
    if plugin == "gang" and flag in ("enablePreemptable", "enableReclaimable"):
        return Result.DIFFERS, "Pods that a group needs are evicted together, or not at all."
    return Result.MISSING, "It has no effect."


def _shown(name: str, value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"{name}: {text}"


# -- plugins with settings here: each function returns the arguments and flags that it translates --


def _gang(_: VolcanoPlugin, draft: Draft) -> Iterable[str]:
    draft.enable("PodGroups")
    draft.add("plugin gang", Result.APPLIED, "PodGroups: the pods that a group needs start together.")
    return ()


def _queues(plugin: VolcanoPlugin, draft: Draft) -> Iterable[str]:
    draft.enable("Queues")
    draft.enable("PodGroups")
    draft.add(f"plugin {plugin.name}", Result.DIFFERS, "Queues has other formulas of shares; see docs/queues.md.")
    return ()


def _drf(plugin: VolcanoPlugin, draft: Draft) -> Iterable[str]:
    """Translate the order of the jobs in a queue, and that of queues."""
    has_hierarchy, orders_jobs = plugin.flags.get("enableHierarchy") is True, plugin.enables("enableJobOrder")
    if not has_hierarchy and not orders_jobs:
        draft.add("plugin drf", Result.MISSING, "It has no other effect than an order.")
        return ("enableJobOrder",)
    draft.enable("Queues")
    draft.enable("PodGroups")
    args = ({"queueOrder": "drf"} if has_hierarchy else {}) | ({"jobOrder": "drf"} if orders_jobs else {})
    draft.set_args("Queues", args)
    jobs = "The jobs of a queue are ordered by dominant shares" if orders_jobs else "Jobs are ordered by time"
    text = f"{jobs}, and so are queues." if has_hierarchy and orders_jobs else f"{jobs}."
    if has_hierarchy and not orders_jobs:
        text = "Queues are ordered by dominant shares, the jobs in a queue by time."
    draft.add("plugin drf", Result.DIFFERS, text)
    return "enableHierarchy", "enableJobOrder"


def _predicates(plugin: VolcanoPlugin, draft: Draft) -> Iterable[str]:
    draft.add("plugin predicates", Result.BUILT_IN, "All filters of kube-scheduler are enabled.")
    for name, filter_ in _PREDICATES.items():
        if _is_false(plugin.arguments.get(name)):
            draft.disable(filter_, "filter")
            draft.add(f"predicates: {name}: false", Result.APPLIED, f"Filter {filter_} is disabled.")
    return (*_PREDICATES,)


def _is_false(value: object) -> bool:
    return value is False or str(value).lower() == "false"


def _node_order(plugin: VolcanoPlugin, draft: Draft) -> Iterable[str]:
    if not plugin.enables("enableNodeOrder"):
        _disable_scores(draft, "nodeorder: enableNodeOrder: false")
        return (*_NODE_ORDER, "leastrequested.weight", "mostrequested.weight", "enableNodeOrder")
    draft.add("plugin nodeorder", Result.APPLIED, "The score plugins have the weights of nodeorder.")
    least, most = plugin.integer("leastrequested.weight", 1), plugin.integer("mostrequested.weight", 0)
    _weigh(draft, _FIT, abs(least - most), 1)
    if most > least:
        draft.set_args(_FIT, {"scoringStrategy": {"type": "MostAllocated"}})
    for name in ("leastrequested.weight", "mostrequested.weight"):
        if name in plugin.arguments:
            # Both scores of a node add up to 100, so only the difference of their weights counts.
            strategy = "MostAllocated" if most > least else "LeastAllocated"
            text = f"{_FIT} has the strategy {strategy} and the weight {abs(least - most)}, the difference."
            draft.add(f"nodeorder: {_shown(name, plugin.arguments[name])}", Result.APPLIED, text)
    for name, (score, default, ours) in _NODE_ORDER.items():
        weight = plugin.integer(name, default)
        _weigh(draft, score, weight, ours)
        if name in plugin.arguments:
            text = f"{score} has the weight {weight}."
            draft.add(f"nodeorder: {_shown(name, plugin.arguments[name])}", Result.APPLIED, text)
    return (*_NODE_ORDER, "leastrequested.weight", "mostrequested.weight")


def _weigh(draft: Draft, score: str, weight: int, default: int) -> None:
    if weight <= 0:
        draft.disable(score, "score")
    elif weight != default:
        draft.enable(score, "score", weight)


def _disable_scores(draft: Draft, setting: str) -> None:
    for name in (_FIT, *(score for score, _, _ in _NODE_ORDER.values())):
        draft.disable(name, "score")
    draft.add(setting, Result.APPLIED, "The score plugins of kube-scheduler are disabled.")


def _bin_pack(plugin: VolcanoPlugin, draft: Draft) -> Iterable[str]:
    names = [name for each in str(plugin.arguments.get("binpack.resources") or "").split(",") if (name := each.strip())]
    keys = {"cpu": "binpack.cpu", "memory": "binpack.memory", **{name: f"binpack.resources.{name}" for name in names}}
    weights = {name: weight if (weight := plugin.integer(key, 1)) >= 0 else 1 for name, key in keys.items()}
    resources = [{"name": name, "weight": weight} for name, weight in weights.items() if weight]
    total = plugin.integer("binpack.weight", 1)
    if _adds_score(plugin, draft, "BinPack", total if resources else 0):
        draft.set_args("BinPack", {"resources": resources})
    return (*keys.values(), "binpack.weight", "binpack.resources", "enableNodeOrder")


def _adds_score(plugin: VolcanoPlugin, draft: Draft, name: str, weight: int) -> bool:
    """Enable a score plugin with its weight; return False if Volcano's has none."""
    if weight <= 0 or not plugin.enables("enableNodeOrder"):
        draft.add(f"plugin {plugin.name}", Result.APPLIED, "It has no weight, so it is left out.")
        return False
    draft.enable(name, weight=weight)
    draft.add(f"plugin {plugin.name}", Result.APPLIED, f"{name} with the weight {weight}.")
    return True


def _task_topology(plugin: VolcanoPlugin, draft: Draft) -> Iterable[str]:
    if _adds_score(plugin, draft, "TaskTopology", plugin.integer("task-topology.weight", 1)):
        text = "The larger pods of a group are placed first; the annotation task-topology-task-order has no effect."
        draft.add("task-topology: order of tasks", Result.DIFFERS, text)
    return "task-topology.weight", "enableNodeOrder"


def _usage(plugin: VolcanoPlugin, draft: Draft) -> Iterable[str]:
    given = plugin.arguments.get("thresholds")
    limits = VolcanoPlugin("", arguments=given if isinstance(given, dict) else {})
    # Flag by flag as in Volcano: its Predicate may be off while it still scores.
    is_filter = plugin.enables("enablePredicate")
    thresholds = {
        ours: limits.integer(name, 80) if is_filter else 0 for ours, name in (("cpu", "cpu"), ("memory", "mem"))
    }
    weights = {"cpu": plugin.integer("cpu.weight", 1), "memory": plugin.integer("memory.weight", 1)}
    if _adds_score(plugin, draft, "Usage", plugin.integer("usage.weight", 5)):
        draft.set_args("Usage", {"thresholds": thresholds, "weights": weights})
        text = "Usage reads NodeMetric objects, which Koordinator's koordlet writes; without them it has no effect."
        draft.add("usage: source of metrics", Result.DIFFERS, text)
    return "usage.weight", "cpu.weight", "memory.weight", "thresholds", "enablePredicate", "enableNodeOrder"


def _sla(plugin: VolcanoPlugin, draft: Draft) -> Iterable[str]:
    given = plugin.arguments.get("sla-waiting-time")
    try:
        seconds = int(parse_duration(str(given))) if given is not None else 0
    except ValueError:
        seconds = 0
    if not plugin.enables("enableJobOrder"):
        draft.add(
            "plugin sla",
            Result.MISSING,
            "It has no other effect than an order.",
        )
        return "sla-waiting-time", "enableJobOrder"
    draft.enable("SLASort", "queueSort")
    draft.disable("PrioritySort", "queueSort")
    if seconds > 0:
        draft.set_args("SLASort", {"waitingSeconds": seconds})
    text = (
        "SLASort: by deadline within a priority. Nodes are reserved for the first job that lacks room, overdue or not."
    )
    draft.add("plugin sla", Result.DIFFERS, text)
    return "sla-waiting-time", "enableJobOrder"


def _tdm(plugin: VolcanoPlugin, draft: Draft) -> Iterable[str]:
    prefix, period = "tdm.revocable-zone.", "tdm.evict.period"
    slots = {name.removeprefix(prefix): str(value) for name, value in plugin.arguments.items() if prefix in name}
    zones = [{"name": name, "slots": [slot.strip()]} for name, slot in slots.items()]
    try:
        seconds = parse_duration(str(plugin.arguments.get(period, "1m")))
    except ValueError:
        seconds = 60.0
    draft.enable("TimeSlots")
    draft.set_args("TimeSlots", {"zones": zones, **({"evictionPeriodSeconds": seconds} if seconds != 60 else {})})
    text = "TimeSlots: times are in UTC unless timeZone is set; at the end of a slot, all its pods are evicted at once."
    draft.add("plugin tdm", Result.DIFFERS, text)
    return (period, *(name for name in plugin.arguments if prefix in name))


_TRANSLATED: Final[Mapping[str, Callable[[VolcanoPlugin, Draft], Iterable[str]]]] = {
    "gang": _gang,
    "proportion": _queues,
    "capacity": _queues,
    "drf": _drf,
    "predicates": _predicates,
    "nodeorder": _node_order,
    "binpack": _bin_pack,
    "task-topology": _task_topology,
    "usage": _usage,
    "sla": _sla,
    "tdm": _tdm,
}


def _translate_missing_plugins(conf: VolcanoConf, draft: Draft) -> None:
    """Add what Volcano does not do without some plugins."""
    if conf.plugin("nodeorder") is None:
        _disable_scores(draft, "no plugin nodeorder")
    if conf.plugin("predicates") is None:
        text = "Filters stay enabled: kubelets reject pods that do not fit their node."
        draft.add("no plugin predicates", Result.DIFFERS, text)
    if conf.plugin("gang") is None and _has_queues(conf):
        draft.add("no plugin gang", Result.DIFFERS, "PodGroups is enabled, because Queues requires it.")
    if conf.plugin("priority") is None:
        draft.add("no plugin priority", Result.DIFFERS, "The queue is ordered by priority nevertheless.")
