"""Compiler of a workload's operations into an initial state and steps that run beside a scheduler. Pure.

Operations keep their order. Those before the first barrier or sleep are done before the scheduler starts, except churn,
deletions and updates, which make sense only while it runs and begin at its start. Pods that are not measured and need
not wait are assigned to nodes here, round robin, so that every contender finds the same cluster.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench import opcodes
from bench.manifests import (
    GROUP,
    GROUP_SIZE,
    INDEX,
    KINDS,
    LABEL,
    NODE,
    SCHEDULER,
    Batch,
    collection,
    merged,
    namespaced,
)
from bench.opcodes import Json
from bench.suite import Case

_HOSTNAME = "kubernetes.io/hostname"
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s)")
_PLAIN_NODE: Json = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": f"node-{INDEX}"},
    "status": {
        "capacity": {"cpu": "4", "memory": "32Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}


@dataclass(frozen=True)
class Pods:
    """Pods of one template and namespace. `measured`: the figures are about them."""

    batch: Batch
    namespace: str
    labels: dict[str, str]
    measured: bool

    def fits(self, namespaces: Sequence[str], labels: dict[str, str]) -> bool:
        """Return True if a barrier or a collection for these namespaces and labels (empty: all) includes the pods."""
        return (not namespaces or self.namespace in namespaces) and labels.items() <= self.labels.items()

    def full_names(self) -> list[str]:
        """Return NAMESPACE/NAME of each pod."""
        return [f"{self.namespace}/{name}" for name in self.batch.names()]


@dataclass(frozen=True)
class Create:
    """Create objects; pods are for the scheduler, and with `wait` the next step waits until they are bound."""

    what: Batch | Pods
    wait: bool = False


@dataclass(frozen=True)
class Churn:
    """Create, or create and delete, one object of each batch per interval (seconds). `number` 0: no limit."""

    batches: Sequence[Batch]
    recreate: bool
    number: int
    interval: float


@dataclass(frozen=True)
class Delete:
    """Delete pods of a namespace; `rate` per second, or all at once with 0."""

    namespace: str
    selector: str
    rate: float
    wait: bool


@dataclass(frozen=True)
class Update:
    """Merge the body into each object of the batch."""

    batch: Batch
    rate: float


@dataclass(frozen=True)
class Barrier:
    """Wait until the matching pods are bound or, with `attempted`, attempted at least once."""

    attempted: bool
    namespaces: Sequence[str]
    labels: dict[str, str]


@dataclass(frozen=True)
class Sleep:
    """Wait for some seconds."""

    seconds: float


Step = Create | Churn | Delete | Update | Barrier | Sleep


@dataclass
class Program:
    """A compiled workload.

    `shared` is created once for all turns, `pending` for each turn, `steps` run beside a scheduler.
    """

    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    nodes: list[Batch] = field(default_factory=list)
    shared: list[Batch] = field(default_factory=list)
    pending: list[Pods] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    @property
    def scheduled(self) -> list[Pods]:
        """Pods for the scheduler: pending ones, and those that are created while it runs."""
        created = [step.what for step in self.steps if isinstance(step, Create) and isinstance(step.what, Pods)]
        return [*self.pending, *created]

    @property
    def measured(self) -> frozenset[str]:
        """NAMESPACE/NAME of every measured pod."""
        return frozenset(key for pods in self.scheduled if pods.measured for key in pods.full_names())

    @property
    def node_names(self) -> list[str]:
        """Names of the initial nodes."""
        return [name for batch in self.nodes for name in batch.names()]


def compiled(case: Case) -> Program:
    """Return the program of a case. SuiteError if it is invalid."""
    compiler = _Compiler(case)
    for number, op in enumerate(case.test.workload_template):
        compiler.add(number, op)
    if not compiler.program.measured:
        raise case.error("workloadTemplate", "no pods are measured; one createPods needs collectMetrics")
    return compiler.program


class _Compiler:
    def __init__(self, case: Case) -> None:
        self.program = Program()
        self._case = case
        self._running = False  # after the first barrier or sleep
        self._placed = 0
        self._node_names: list[str] = []
        self._collecting: opcodes.StartCollectingMetrics | None = None
        self._where = ""

    def add(self, number: int, op: opcodes.Op) -> None:
        self._where = f"workloadTemplate[{number}]"
        match op:
            case opcodes.CreateNodes():
                self._nodes(number, op)
            case opcodes.CreateNamespaces():
                self._namespaces(op)
            case opcodes.CreatePods():
                self._pods(number, op, op.namespace or f"namespace-{number}")
            case opcodes.CreatePodSets():
                for i in range(self._count(op)):
                    self._pods(number, op.create_pods_op, f"{op.namespace_prefix}-{i}")
            case opcodes.CreateAny():
                self._make(self._any(number, op, op.namespace, self._count(op, 1)))
            case opcodes.StartCollectingMetrics():
                self._collecting = op
            case opcodes.StopCollectingMetrics():
                self._collecting = None
            case _:
                self._step(number, op)

    def _step(
        self, number: int, op: opcodes.Churn | opcodes.DeletePods | opcodes.UpdateAny | opcodes.Barrier | opcodes.Sleep
    ) -> None:
        steps = self.program.steps
        match op:
            case opcodes.Churn():
                steps.append(self._churn(number, op))
            case opcodes.DeletePods():
                selector = ",".join(f"{key}={value}" for key, value in op.label_selector.items())
                wait = not op.skip_wait_to_completion
                steps.append(Delete(op.namespace, selector, op.delete_pods_per_second, wait))
            case opcodes.UpdateAny():
                batch = self._any(number, op, op.namespace, self._count(op, 1))
                steps.append(Update(batch, op.update_per_second))
            case opcodes.Barrier():
                self._running = True
                steps.append(Barrier(op.stage_requirement == "Attempted", op.namespaces, op.label_selector))
            case opcodes.Sleep():
                self._running = True
                steps.append(Sleep(self._seconds(op.duration)))

    def _count(self, op: opcodes.Counted, usual: int | None = None) -> int:
        if op.count is not None and op.count_param is None:
            return op.count
        if op.count_param is not None and op.count is None:
            return self._case.workload.params[op.count_param.removeprefix("$")]
        if usual is not None and op.count is None:
            return usual
        raise self._case.error(self._where, "give either count or countParam")

    def _seconds(self, duration: str) -> float:
        found = _DURATION.fullmatch(duration)
        if found is None:
            raise self._case.error(f"{self._where}.duration", f'"{duration}" is not a duration such as "500ms" or "2s"')
        return float(found[1]) / (1000 if found[2] == "ms" else 1)

    def _template(self, path: str | None, inline: Json | None) -> Json:
        found = self._case.document(self._where, path, inline)
        if found is None:
            raise self._case.error(self._where, "a template, or a path to one, is required")
        return found

    def _make(self, batch: Batch) -> None:
        """Add the batch to the initial state, or to the steps after a barrier."""
        if self._running:
            self.program.steps.append(Create(batch))
        elif batch.path == collection("Node"):
            self.program.nodes.append(batch)
            self._node_names += batch.names()
        else:
            self.program.shared.append(batch)

    def _named(self, number: int, document: Json, count: int) -> Json:
        """Return the object with a unique name: generateName, the operation's number and the object's."""
        metadata = document.get("metadata", {})
        name = metadata.get("name")
        if name is None:
            return merged(document, name=f"{metadata.get('generateName', 'object-')}{number}-{INDEX}")
        if count > 1 and INDEX not in name:
            raise self._case.error(self._where, f"{count} objects have the same name {name}; the name needs {INDEX}")
        return merged(document)

    def _any(self, number: int, op: opcodes.CreateAny | opcodes.UpdateAny, namespace: str | None, count: int) -> Batch:
        return self._one(number, self._template(op.template_path, op.template), namespace, count)

    def _one(self, number: int, document: Json, namespace: str | None, count: int) -> Batch:
        kind = document.get("kind", "")
        if kind not in KINDS:
            raise self._case.error(self._where, f"a template of kind {kind!r}; supported are {', '.join(KINDS)}")
        object_namespace = (namespace or f"namespace-{number}") if namespaced(kind) else ""
        if object_namespace:
            self.program.namespaces.setdefault(object_namespace, {})
        if kind == "Pod":
            document = {**document, "spec": {**document["spec"], "schedulerName": SCHEDULER}}
        document = self._named(number, document, count)
        if kind == "Node":
            document = merged(document, labels={_HOSTNAME: document["metadata"]["name"]})
        return Batch.of(collection(kind, object_namespace), count, document)

    def _namespaces(self, op: opcodes.CreateNamespaces) -> None:
        document = self._case.document(self._where, op.namespace_template_path, op.namespace_template) or {}
        labels = document.get("metadata", {}).get("labels", {})
        for number in range(self._count(op)):
            self.program.namespaces[f"{op.prefix}-{number}"] = labels

    def _nodes(self, number: int, op: opcodes.CreateNodes) -> None:
        count = self._count(op)
        if not count:
            return
        template = self._case.document(self._where, op.node_template_path, op.node_template) or _PLAIN_NODE
        document = self._named(number, template, count)
        name = document["metadata"]["name"]
        own_labels = document["metadata"].get("labels", {})
        labels, words = {_HOSTNAME: name, **own_labels}, {}
        if op.label_node_prepare_strategy:
            labels[op.label_node_prepare_strategy.label_key] = LABEL
            words[LABEL] = list(op.label_node_prepare_strategy.label_values)
        if op.unique_node_label_strategy:
            labels[op.unique_node_label_strategy.label_key] = name
        document = merged(document, labels=labels)
        strategy = op.node_allocatable_strategy
        if strategy:
            capacity = {**document["status"]["capacity"], **strategy.node_allocatable}
            document = {**document, "status": {**document["status"], "capacity": capacity}}
        self._make(Batch.of(collection("Node"), count, document, words))
        if strategy and strategy.csi_node_allocatable:
            self._make(_csi_nodes(name, count, strategy))

    def _pods(self, number: int, op: opcodes.CreatePods, namespace: str) -> None:
        count = self._count(op)
        self.program.namespaces.setdefault(namespace, {})
        usual = self._case.test
        path, inline = op.pod_template_path, op.pod_template
        if path is None and inline is None:
            path, inline = usual.default_pod_template_path, usual.default_pod_template
        document = self._named(number, self._template(path, inline), count)
        document = {**document, "spec": {**document["spec"], "schedulerName": SCHEDULER}}
        document = self._with_volumes(document, op, count, namespace)
        labels = document["metadata"].get("labels", {})
        batch = Batch.of(collection("Pod", namespace), count, document, self._groups(op, count))
        pods = Pods(batch, namespace, labels, False)
        start = self._collecting
        measured = op.collect_metrics or bool(start and pods.fits(start.namespaces, start.label_selector))
        pods = Pods(pods.batch, namespace, labels, measured)
        if self._running:
            self.program.steps.append(Create(pods, wait=not (measured or op.skip_wait_to_completion)))
        elif measured or op.skip_wait_to_completion:
            self.program.pending.append(pods)
        else:
            self.program.shared.append(self._on_nodes(document, count, namespace))

    def _groups(self, op: opcodes.CreatePods, count: int) -> dict[str, Sequence[str]]:
        """Return the words of the pods' group and of its size; none without groups."""
        if op.groups_param is None:
            return {}
        groups = min(count, self._case.workload.params[op.groups_param.removeprefix("$")])
        if count % groups:
            raise self._case.error(f"{self._where}.groupsParam", f"{count} pods are not divisible into {groups} groups")
        return {GROUP: [f"group-{i}" for i in range(groups)], GROUP_SIZE: [str(count // groups)]}

    def _on_nodes(self, document: Json, count: int, namespace: str) -> Batch:
        """Return bound pods, on the nodes after those of the previous batch."""
        nodes = self._node_names
        if not nodes:
            raise self._case.error(self._where, "bound pods need nodes that are created before them")
        turn = self._placed % len(nodes)
        self._placed += count
        spec = {key: value for key, value in document["spec"].items() if key != "schedulerName"}
        placed = {**document, "spec": {**spec, "nodeName": NODE}}
        return Batch.of(collection("Pod", namespace), count, placed, {NODE: nodes[turn:] + nodes[:turn]})

    def _with_volumes(self, document: Json, op: opcodes.CreatePods, count: int, namespace: str) -> Json:
        """Return the pod with a claim bound to a volume, one of each per pod, if the operation has both templates."""
        volume = self._case.document(self._where, op.persistent_volume_template_path, op.persistent_volume_template)
        claim = self._case.document(
            self._where, op.persistent_volume_claim_template_path, op.persistent_volume_claim_template
        )
        if volume is None or claim is None:
            return document
        name = document["metadata"]["name"]
        volume_name = f"{namespace}-{name}"
        owner = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name}
        volume = merged({**volume, "spec": {**volume["spec"], "claimRef": owner}}, name=volume_name)
        claim = merged(
            {**claim, "spec": {**claim["spec"], "volumeName": volume_name, "storageClassName": ""}},
            name=name,
            annotations={"pv.kubernetes.io/bind-completed": "yes"},
        )
        self._make(Batch.of(collection("PersistentVolume"), count, volume))
        self._make(Batch.of(collection("PersistentVolumeClaim", namespace), count, claim))
        used = {"name": "claim", "persistentVolumeClaim": {"claimName": name}}
        spec = {**document["spec"], "volumes": [*document["spec"].get("volumes", []), used]}
        return {**document, "spec": spec}

    def _churn(self, number: int, op: opcodes.Churn) -> Churn:
        templates = [self._template(path, None) for path in op.template_paths] + list(op.templates)
        batches = [
            self._one(
                number, merged(template, name=f"{template['kind'].lower()}-churn-{number}-{INDEX}"), op.namespace, 1
            )
            for template in templates
        ]
        if op.mode == "recreate" and op.number < 1:
            raise self._case.error(f"{self._where}.number", "mode recreate needs a number of at least 1")
        return Churn(batches, op.mode == "recreate", op.number, op.interval_milliseconds / 1000)


def _csi_nodes(name: str, count: int, strategy: opcodes.NodeAllocatableStrategy) -> Batch:
    drivers = [
        {"name": driver, "nodeID": name, "topologyKeys": None, "allocatable": {"count": limit.count}}
        for driver, limit in strategy.csi_node_allocatable.items()
    ]
    metadata: Json = {"name": name}
    if strategy.migrated_plugins:
        plugins = ",".join(strategy.migrated_plugins)
        metadata["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": plugins}
    document = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": metadata,
        "spec": {"drivers": drivers},
    }
    return Batch.of(collection("CSINode"), count, document)
