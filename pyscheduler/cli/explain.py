"""`pyscheduler explain`: why pods are pending or where they are, and what would let them fit."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import click
import msgspec
from msgspec.structs import replace
from rich.console import Group

from pyscheduler.api import ResourceKind
from pyscheduler.api.objects import PodObject
from pyscheduler.cli import options
from pyscheduler.cli.batch_cluster import BatchCluster, ListedObjects, ReadScope, batch_config
from pyscheduler.cli.batch_command import OUTPUT, CommandOutput, kubeconfig_option, print_output
from pyscheduler.cli.batch_reader import ObjectReader, missing_rights
from pyscheduler.cli.command_problem import CommandProblem
from pyscheduler.cli.dumped_objects import dumped_objects
from pyscheduler.cli.explain_view import pods_of_workload, view
from pyscheduler.cli.explanation import Explainer, Explanation
from pyscheduler.cli.options import API_SERVER, CONFIGURATION
from pyscheduler.cli.sections import SectionedCommand, option
from pyscheduler.config.load import load
from pyscheduler.config.problems import did_you_mean
from pyscheduler.config.types import DEFAULT_SCHEDULER_NAME
from pyscheduler.embedded.selectors import parse_labels
from pyscheduler.embedded.status import ApiStatusError
from pyscheduler.kube.connection import ConnectionOptions, connect
from pyscheduler.kube.paths import NODES

_HELP = """Explain why pods are pending or where they are, and what would let them fit.

POD is NAME or NAMESPACE/NAME. Each is evaluated by itself against the cluster as it is now, by the code that the
scheduler runs. Nothing is changed, and no scheduler needs to run: pods of kube-scheduler are explained as well.

\b
  pyscheduler explain web-0 -n shop
  pyscheduler explain shop/web-0 --node worker-3        why (not) on this node
  pyscheduler explain -n shop -l app=web                the pods with these labels
  pyscheduler explain shop/web-0 -o json | jq -r '.rejected[].rejections[].hint'

\b
Without the cluster, from a dump of it:
  kubectl get nodes,pods,pv,pvc,storageclasses,pdb -A -o yaml > dump.yaml
  pyscheduler explain shop/web-0 --load dump.yaml

\b
Columns:
  NODES            nodes that the same plugins reject for the same reasons; few reasons first
  WHY NOT          reason, and the plugin that rejects
  WHAT WOULD HELP  change after which the plugin accepts one of these nodes
  TOTAL            weighted sum of the scores of a node that fits, then the plugins with different scores
"""


LabelTest = Callable[[Mapping[str, str]], bool]
"""Predicate of the labels of a pod."""
_DEFAULT_NAMESPACE: Final = "default"
_SHOWN: Final = 5


def _selector(_: click.Context, __: click.Parameter, text: str) -> LabelTest | None:
    if not text:
        return None
    try:
        requirements = parse_labels(text)
    except ApiStatusError as problem:
        raise click.BadParameter(problem.message) from None
    return lambda labels: all(each.matches(labels) for each in requirements)


@click.command(cls=SectionedCommand, context_settings={"show_default": True}, help=_HELP)
@click.argument("pods", nargs=-1, metavar="[POD]...")
@option(
    "--selector",
    "-l",
    section=API_SERVER,
    default="",
    callback=_selector,
    metavar="LABELS",
    help="Explain all pods with these labels in the namespace.",
)
@option(
    "--namespace",
    "-n",
    section=API_SERVER,
    default="",
    metavar="NS",
    help="Namespace (default: that of the kubeconfig's context).",
)
@kubeconfig_option
@option(
    "--load",
    "--cluster",
    "dumps",
    section=API_SERVER,
    multiple=True,
    type=options.FILE,
    metavar="FILE",
    help="Read a dump instead: `kubectl get -o yaml`, a snapshot, a `cluster-info dump` folder. May be repeated.",
)
@option(
    "--config",
    section=CONFIGURATION,
    type=options.FILE,
    metavar="FILE",
    help="Configuration of the scheduler (default: the default plugins, and those for groups and queues).",
)
@option("--node", section=OUTPUT, default="", metavar="NAME", help="Explain only this node.")
@option("--output", "-o", section=OUTPUT, type=click.Choice(["table", "json"]), default="table", help="Format.")
def explain(
    pods: tuple[str, ...],
    selector: LabelTest | None,
    namespace: str,
    kubeconfig: Path | None,
    dumps: tuple[Path, ...],
    config: Path | None,
    node: str,
    output: str,
) -> None:
    if bool(pods) == (selector is not None):
        raise click.UsageError("name pods, or select them with -l" + (", not both" if pods else ""))
    options.logging("text", 0, quiet=True)
    loaded = load(config) if config else None
    kinds = BatchCluster(loaded or batch_config(DEFAULT_SCHEDULER_NAME)).watched
    if dumps:
        objects, namespace = dumped_objects(dumps, kinds), namespace or _DEFAULT_NAMESPACE
    else:
        objects, namespace = options.run_async(_listed(kubeconfig, kinds, pods, namespace))
    keys = list(dict.fromkeys(_pod_key(pod, namespace) for pod in pods))
    first = _first_namespace(pods, namespace)
    other = next((key for key in keys if not key.startswith(f"{first}/")), "")
    if other and objects.scope.namespace:
        raise CommandProblem(f"you may list pods of one namespace at a time: explain {other} by itself")
    targets = [_pod(objects, key) for key in keys] if selector is None else _selected(objects, first, selector)
    found = Explainer(loaded, objects).explain(targets)
    found = [_of_node(each, node) for each in found] if node else found
    parts = [part for i, each in enumerate(found) for part in (*([""] if i else []), *view(each))]
    lines = {each.key: msgspec.json.encode(each).decode() for each in found}
    print_output(CommandOutput(Group(*parts), lines, _note(objects.scope)), output)
    if any(each.error for each in found):
        sys.exit(1)


async def _listed(
    kubeconfig: Path | None, kinds: Sequence[ResourceKind], pods: Sequence[str], namespace: str
) -> tuple[ListedObjects, str]:
    """Return the objects of the API server, and the namespace of pods that are named without one.

    CommandProblem if nodes may not be listed; ApiError.
    """
    connection = await connect(kubeconfig, ConnectionOptions(qps=-1))
    namespace = namespace or connection.namespace
    try:
        objects = await ObjectReader(connection, kinds, _first_namespace(pods, namespace)).read()
    finally:
        await connection.close()
    if NODES in objects.scope.forbidden:
        raise CommandProblem("you may not list nodes, which the plugins evaluate; explain a dump of them with --load")
    return objects, namespace


def _first_namespace(pods: Sequence[str], namespace: str) -> str:
    """Return the namespace of the first pod; without pods, `namespace`."""
    return _pod_key(pods[0], namespace).partition("/")[0] if pods else namespace


def _pod_key(pod: str, namespace: str) -> str:
    """Return the `namespace/name` of NAME, NAMESPACE/NAME, or pod/NAME as `kubectl get -o name` prints it."""
    name = pod.removeprefix("pod/")
    return name if "/" in name else f"{namespace}/{name}"


def _note(scope: ReadScope) -> str:
    """Return what could not be read, "" if nothing."""
    return f"\nYou may not list {missing_rights(scope.forbidden)}: evaluated without them." if scope.forbidden else ""


def _selected(objects: ListedObjects, namespace: str, selects: LabelTest) -> list[PodObject]:
    """Return the pods of a namespace with certain labels, by name. CommandProblem if there are none."""
    found = [
        each for each in objects.pods if each.metadata.namespace == namespace and selects(each.metadata.labels or {})
    ]
    if not found:
        raise CommandProblem(f"no pod of namespace {namespace} has these labels{_labels_hint(objects, namespace)}")
    return sorted(found, key=lambda pod: pod.metadata.name)


def _labels_hint(objects: ListedObjects, namespace: str) -> str:
    """Return the most frequent labels of the namespace's pods, or the namespaces that have pods."""
    pods = [each.metadata for each in objects.pods if each.metadata.namespace == namespace]
    labels = Counter(f"{key}={value}" for each in pods for key, value in (each.labels or {}).items())
    if labels:
        return f"; labels there: {_most_frequent(labels)}"
    namespaces = Counter(each.metadata.namespace for each in objects.pods)
    return f"; namespaces with pods: {_most_frequent(namespaces)}" if namespaces and not pods else ""


def _most_frequent(names: Counter[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(name for name, _ in names.most_common(_SHOWN)) + more


def _pod(objects: ListedObjects, key: str) -> PodObject:
    """Return the pod of a key. CommandProblem if there is none."""
    by_key = {f"{each.metadata.namespace}/{each.metadata.name}": each for each in objects.pods}
    if key not in by_key:
        name = key.rpartition("/")[2]
        same = [other for other in by_key if other.endswith(f"/{name}")]
        elsewhere = f"; there is {same[0]}: -n {same[0].partition('/')[0]}" if same else ""
        hint = elsewhere or pods_of_workload(name, by_key) or did_you_mean(key, by_key)
        raise CommandProblem(f"there is no pod {key}{hint}")
    return by_key[key]


def _of_node(found: Explanation, node: str) -> Explanation:
    """Return what an explanation has about one node. CommandProblem if the node does not exist."""
    feasible = [each for each in found.feasible if each.node == node]
    rejected = [replace(each, nodes=[node]) for each in found.rejected if node in each.nodes]
    if not feasible and not rejected and (found.feasible or found.rejected):
        nodes = [each.node for each in found.feasible] + [name for each in found.rejected for name in each.nodes]
        raise CommandProblem(f"there is no node {node}{did_you_mean(node, nodes)}")
    return replace(found, feasible=feasible, rejected=rejected)
