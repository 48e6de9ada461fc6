"""`pyscheduler explain`: what keeps a pod off each node, what would let it fit, and why it is where it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from pyscheduler.cli.command_problem import CommandProblem
from pyscheduler.cli.program import app
from pyscheduler.testing import NodeBuilder, PodBuilder, node, pod

Json = dict[str, Any]
BROKEN = {"requests": {"cpu": "one"}}
ZONE = "topology.kubernetes.io/zone"


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return tmp_path / "dump.json"


def explained(dump: Path, name: str, *objects: NodeBuilder | PodBuilder | Json, flags: tuple[str, ...] = ()) -> Json:
    """Return the explanation of a pod in a dump of these objects."""
    result = run(dump, name, *objects, flags=("-o", "json", *flags))
    assert result.exit_code == 0, result.output
    found: Json = json.loads(result.stdout)
    return found


def run(
    dump: Path, name: str, *objects: NodeBuilder | PodBuilder | Json, flags: tuple[str, ...] = (), width: str = "200"
) -> Result:
    items = [each if isinstance(each, dict) else each.manifest for each in objects]
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return CliRunner(env={"COLUMNS": width}).invoke(app, ["explain", name, "--load", str(dump), *flags])


def rejections(found: Json) -> dict[str, list[tuple[str, str]]]:
    """Return plugin and hint of each rejection by the names of the nodes."""
    return {
        " ".join(each["nodes"]): [(o["plugin"], o["hint"]) for o in each["rejections"]] for each in found["rejected"]
    }


NEEDS_SSD = pod("p").node_selector(disk="ssd")
PORT = pod("p").host_port(80)
WITH_A = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "a"}}}
SPREAD = (
    pod("p")
    .label("app", "a")
    .spec(
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "a"}},
            }
        ]
    )
)


@pytest.mark.parametrize(
    ("target", "others", "expected"),
    [
        pytest.param(
            pod("p").requests(cpu="3"),
            [node("n", cpu="4"), pod("a").requests(cpu="2").on("n")],
            [("NodeResourcesFit", "1 cpu less requested by it, or by the pods on n")],
            id="node too full",
        ),
        pytest.param(
            pod("p").requests(cpu="3", memory="1Gi"),
            [node("n", cpu="2", memory="2Gi")],
            [("NodeResourcesFit", "a node with 3 cpu; the largest has 2")],
            id="pod too large",
        ),
        pytest.param(
            pod("p"),
            [node("n", pods="1"), pod("a").on("n")],
            [("NodeResourcesFit", "a pod less on the node, which allows no more")],
            id="too many pods",
        ),
        pytest.param(
            pod("p"),
            [node("n").taint("gpu", "yes", effect="NoSchedule")],
            [("TaintToleration", "a toleration of gpu=yes:NoSchedule")],
            id="taint",
        ),
        pytest.param(
            pod("p"),
            [node("n").taint("node.kubernetes.io/not-ready", effect="NoExecute")],
            [("TaintToleration", "the end of not-ready: kubectl describe node n")],
            id="taint of a condition",
        ),
        pytest.param(pod("p"), [node("n").unschedulable()], [("NodeUnschedulable", "kubectl uncordon n")], id="cordon"),
        pytest.param(
            NEEDS_SSD,
            [node("n").label("disk", "hdd")],
            [("NodeAffinity", "label disk=ssd on n, or another nodeSelector")],
            id="node selector",
        ),
        pytest.param(
            PORT,
            [node("n"), pod("a").host_port(80).on("n")],
            [("NodePorts", "host ports 80/TCP free on the node")],
            id="port",
        ),
        pytest.param(
            SPREAD,
            [node("n").zone("z1"), pod("a").label("app", "a").on("n"), node("other").zone("z2").unschedulable()],
            [("PodTopologySpread", f"fewer matching pods in this domain than in others: {ZONE} (maxSkew 1)")],
            id="spreading",
        ),
        pytest.param(
            SPREAD,
            [node("n")],
            [("PodTopologySpread", f"label {ZONE} on n")],
            id="spreading by a label that is missing",
        ),
        pytest.param(
            pod("p").pod_affinity(WITH_A),
            [node("n").zone("z1")],
            [("InterPodAffinity", f"a pod with app=a in its {ZONE}")],
            id="affinity",
        ),
        pytest.param(
            pod("p").pod_anti_affinity(WITH_A),
            [node("n").zone("z1"), pod("a").label("app", "a").on("n")],
            [("InterPodAffinity", f"no pod with app=a in its {ZONE}")],
            id="anti-affinity",
        ),
        pytest.param(
            pod("p").label("app", "a"),
            [node("n").zone("z1"), pod("a").pod_anti_affinity(WITH_A).on("n")],
            [("InterPodAffinity", "no pod with anti-affinity to its labels: app=a")],
            id="anti-affinity of another pod",
        ),
    ],
)
def test_hint_names_the_change_after_which_the_plugin_accepts_the_node(
    dump: Path, target: PodBuilder, others: list[NodeBuilder | PodBuilder], expected: list[tuple[str, str]]
) -> None:
    found = explained(dump, "p", target, *others)
    assert (found["state"], rejections(found)["n"]) == ("Unschedulable", expected)


def test_all_rejections_of_a_node_are_listed_and_nodes_with_few_come_first(dump: Path) -> None:
    target = pod("p").requests(cpu="8").node_selector(disk="ssd")
    tainted = node("b", cpu="4").taint("gpu", effect="NoSchedule")
    found = explained(dump, "p", target, tainted, node("a", cpu="4").label("disk", "ssd"), node("c", cpu="4"))
    assert {nodes: [plugin for plugin, _ in each] for nodes, each in rejections(found).items()} == {
        "a": ["NodeResourcesFit"],
        "c": ["NodeAffinity", "NodeResourcesFit"],
        "b": ["TaintToleration", "NodeAffinity", "NodeResourcesFit"],
    }
    assert [*rejections(found)] == ["a", "c", "b"]


def test_equal_nodes_are_one_row_and_the_hint_names_the_closest(dump: Path) -> None:
    nodes = [node(f"n{i}", cpu="4") for i in range(3)]
    taken = [pod(f"a{i}").requests(cpu=f"{3 - i}").on(f"n{i}") for i in range(3)]
    found = explained(dump, "p", pod("p").requests(cpu="4"), *nodes, *taken)
    assert rejections(found) == {"n0 n1 n2": [("NodeResourcesFit", "1 cpu less requested by it, or by the pods on n2")]}


def test_pod_on_a_node_is_compared_with_the_other_nodes(dump: Path) -> None:
    bound = pod("p").requests(cpu="1").on("small")
    found = explained(dump, "p", node("small", cpu="2"), node("large", cpu="16"), node("tiny", cpu="500m"), bound)
    assert (found["state"], found["node"]) == ("Bound", "small")
    assert [(each["node"], each["rank"]) for each in found["feasible"]] == [("large", 1), ("small", 2)]
    assert [*rejections(found)] == ["tiny"]
    text = run(dump, "p", node("small", cpu="2"), node("large", cpu="16"), bound).stdout
    assert text.startswith("default/p is on small, number 2 of 2 nodes that fit it now")


def test_victims_of_preemption_are_named(dump: Path) -> None:
    low = pod("low").requests(cpu="2").priority(-1).on("n")
    result = run(dump, "p", node("n", cpu="2"), low, pod("p").requests(cpu="1"))
    assert "would evict default/low from n" in result.stdout


def test_gated_pod_names_its_gates(dump: Path) -> None:
    gated = pod("p").gate("example.com/quota")
    found = explained(dump, "p", node("n"), gated)
    assert (found["state"], found["gate"]["plugin"]) == ("Gated", "SchedulingGates")
    assert "example.com/quota" in run(dump, "p", node("n"), gated).stdout


def test_member_of_a_group_has_its_group_and_queue(dump: Path) -> None:
    members = [
        pod(f"g{i}")
        .requests(cpu="1")
        .annotation("pyscheduler.io/pod-group", "g")
        .annotation("pyscheduler.io/pod-group-min-count", "2")
        for i in range(2)
    ]
    found = explained(dump, "g0", node("n", cpu="1"), *members)
    assert (found["state"], found["group"]["name"], found["group"]["needed"]) == ("Fits", "g", 2)
    text = run(dump, "g0", node("n", cpu="1"), *members).stdout
    assert text.startswith("default/g0 waits for its group; by itself it fits 1 of 1 node now")
    assert "default/g: waiting, 0 of 2 needed have nodes" in text


def test_pod_that_its_queue_holds_back_does_not_read_as_if_it_fitted(dump: Path) -> None:
    member = pod("p").annotation("pyscheduler.io/pod-group-queue", "none")
    text = run(dump, "p", node("n"), member).stdout
    assert text.startswith("default/p waits for its queue; by itself it fits 1 of 1 node now")


def test_one_node_may_be_chosen(dump: Path) -> None:
    objects: list[NodeBuilder | PodBuilder] = [
        node("node-1", cpu="1"),
        node("gpu").taint("gpu", effect="NoSchedule"),
        pod("p").requests(cpu="2"),
    ]
    assert [*rejections(explained(dump, "p", *objects, flags=("--node", "gpu")))] == ["gpu"]
    result = run(dump, "p", *objects, flags=("--node", "node1"))
    assert str(result.exception) == 'there is no node node1; did you mean "node-1"?'


@pytest.mark.parametrize(
    ("name", "hint"),
    [("web", "there is no pod default/web; there is shop/web: -n shop"), ("wib", "there is no pod default/wib")],
)
def test_unknown_pod_is_one_line_with_a_hint(dump: Path, name: str, hint: str) -> None:
    result = run(dump, name, node("n"), pod("web").namespace("shop"))
    assert str(result.exception).startswith(hint)
    assert run(dump, "web", node("n"), pod("web").namespace("shop"), flags=("-n", "shop")).exit_code == 0


def test_pod_of_a_scheduler_that_the_configuration_lacks_is_an_error(dump: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    other = pod("p").scheduler("volcano")
    assert run(dump, "p", node("n"), other).exit_code == 0, "without a configuration, by the default plugins"
    result = run(dump, "p", node("n"), other, flags=("--config", str(config)))
    assert result.exit_code == 1
    assert 'profile not found for scheduler name "volcano"' in result.output
    assert "profiles of the configuration: default-scheduler" in result.output


@pytest.mark.parametrize("name", ["web", "deployment/web", "pod/web"])
def test_error_for_workload_name_lists_its_pods(dump: Path, name: str) -> None:
    result = run(dump, name, node("n"), *(pod(f"web-{i}") for i in range(5)), pod("webhook"))
    assert str(result.exception).endswith("; there are default/web-0, default/web-1, default/web-2 and 2 more")


def test_pod_may_be_named_as_kubectl_prints_it(dump: Path) -> None:
    result = run(dump, "pod/web", node("n"), pod("web").namespace("shop"), flags=("-n", "shop"))
    assert result.stdout.startswith("shop/web has no node yet")


def test_container_with_only_limits_requests_them(dump: Path) -> None:
    container = {"name": "train", "resources": {"limits": {"example.com/gpu": "1"}}}
    found = explained(dump, "p", node("n"), pod("p").spec(containers=[container]))
    assert found["rejected"][0]["rejections"][0]["reasons"] == ["Insufficient example.com/gpu"]


def test_invalid_object_is_named_by_its_place(dump: Path) -> None:
    broken = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": 3}}
    result = run(dump, "p", node("n"), broken)
    assert isinstance(result.exception, CommandProblem)
    assert "dump.json: items[1]: Pod x: " in str(result.exception)


def test_pod_with_an_invalid_quantity_is_one_line(dump: Path) -> None:
    result = run(dump, "p", node("n"), pod("p").manifest | {"spec": {"containers": [{"resources": BROKEN}]}})
    assert isinstance(result.exception, CommandProblem)


def test_control_characters_of_a_message_do_not_reach_the_terminal(dump: Path) -> None:
    written = {"type": "PodScheduled", "status": "False", "reason": "x", "message": "\x1b[2J[red]evil[/red]\x9b"}
    text = run(dump, "p", node("n", cpu="1"), pod("p").requests(cpu="2").status(conditions=[written])).stdout
    assert "x: \N{REPLACEMENT CHARACTER}[2J[red]evil[/red]\N{REPLACEMENT CHARACTER}" in text


def explained_pods(dump: Path, *words: str) -> list[tuple[str, str]]:
    """Return key and state of each explained pod among three."""
    web = [pod(name).namespace("shop").label("app", "web").requests(cpu=cpu) for name, cpu in (("b", "9"), ("a", "1"))]
    other = pod("c").namespace("shop").requests(cpu="1")
    objects = [each.manifest for each in (node("n", cpu="2"), *web, other)]
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    result = CliRunner().invoke(app, ["explain", *words, "--load", str(dump), "-o", "json"], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    return [(f"{each['namespace']}/{each['name']}", each["state"]) for each in lines]


def test_several_pods_are_explained_in_the_order_of_their_names_on_the_command_line(dump: Path) -> None:
    assert explained_pods(dump, "shop/c", "shop/b", "shop/c") == [("shop/c", "Fits"), ("shop/b", "Unschedulable")]


def test_pods_with_labels_are_explained_by_name(dump: Path) -> None:
    assert explained_pods(dump, "-n", "shop", "-l", "app=web") == [("shop/a", "Fits"), ("shop/b", "Unschedulable")]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param((), "name pods, or select them with -l", id="neither"),
        pytest.param(("shop/a", "-l", "app"), "name pods, or select them with -l, not both", id="both"),
        pytest.param(
            ("-l", "app=web"),
            "no pod of namespace default has these labels; namespaces with pods: shop",
            id="other namespace",
        ),
        pytest.param(("-n", "shop", "-l", "app=no"), "; labels there: app=web", id="other label"),
        pytest.param(("-l", "app in"), "app in", id="malformed"),
    ],
)
def test_selection_that_is_invalid_is_reported(dump: Path, words: tuple[str, ...], message: str) -> None:
    with pytest.raises((click.ClickException, CommandProblem)) as raised:
        explained_pods(dump, *words)
    assert message in str(raised.value)
