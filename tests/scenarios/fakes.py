"""Plugins for scenarios, enabled by `tests.scenarios.fakes:Name`.

`calls` lists the extension points that ran by pod; tests clear it first.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from pyscheduler.api import (
    NODE,
    POD,
    SKIP,
    Action,
    ApiWriter,
    BindPlugin,
    ClusterEvent,
    ClusterEventWithHint,
    Cycle,
    Diagnosis,
    FilterPlugin,
    Handle,
    NodeInfo,
    NodeNames,
    NodeTable,
    Nominate,
    PermitPlugin,
    Pod,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueuedPod,
    QueueingHint,
    QueueSortPlugin,
    Reads,
    Rejection,
    ReservePlugin,
    ResourceKind,
    ScorePlugin,
    Scores,
    Skip,
    StatusError,
    Wait,
)

calls: list[tuple[str, str]] = []
LICENCE = ResourceKind("example.com", "v1", "licences", "Licence", namespaced=False)


class EveryExtensionPoint(
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    ReservePlugin,
    PermitPlugin,
    PreBindPlugin,
    BindPlugin,
    PostBindPlugin,
):
    """Plugin with every extension point of an attempt, which records each call; pod labels make it reject."""

    name = "EveryExtensionPoint"

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> None:
        calls.append(("PreFilter", pod.name))

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        calls.append(("Filter", pod.name))
        return Rejection("node(s) were full up") if pod.labels.get("fit") == "no" else None

    def post_filter(self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis) -> Nominate | Rejection:
        calls.append(("PostFilter", pod.name))
        return Rejection("nothing to be done")

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> None:
        calls.append(("PreScore", pod.name))

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        calls.append(("Score", pod.name))
        return 0

    def reserve(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        calls.append(("Reserve", pod.name))
        return Rejection("no reservation today") if pod.labels.get("reserve") == "no" else None

    def unreserve(self, cycle: Cycle, pod: Pod, node_name: str) -> None:
        calls.append(("Unreserve", pod.name))

    def permit(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Wait | Rejection | None:
        calls.append(("Permit", pod.name))
        seconds = pod.labels.get("wait")
        if seconds is not None:
            return Wait(float(seconds))
        return Rejection("not permitted") if pod.labels.get("permit") == "no" else None

    def pre_bind_pre_flight(self, cycle: Cycle, pod: Pod, node_name: str) -> Skip | None:
        match pod.labels.get("preflight"):
            case "idle":
                return SKIP
            case "broken":
                raise ZeroDivisionError("one over nothing")
        return None

    async def pre_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> Rejection | None:
        calls.append(("PreBind", pod.name))
        return Rejection("not ready to bind") if pod.labels.get("prebind") == "no" else None

    async def bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> None:
        calls.append(("Bind", pod.name))
        await api.bind(pod, node_name)

    async def post_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> None:
        calls.append(("PostBind", pod.name))


class License(PreFilterPlugin, ReservePlugin, PreBindPlugin):
    """Reserves a license for pods with the label, and has nothing to do for others."""

    name = "License"
    skip_includes_reserve = True

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        return None if "license" in pod.labels else SKIP

    def reserve(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        calls.append(("Reserve", pod.name))

    def unreserve(self, cycle: Cycle, pod: Pod, node_name: str) -> None:
        calls.append(("Unreserve", pod.name))

    async def pre_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> None:
        calls.append(("PreBind", pod.name))


class OnlyNode(PreFilterPlugin, FilterPlugin):
    """Restricts every pod with a `node` label to that node."""

    name = "OnlyNode"
    reads = Reads.OWN_NODE

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeNames | Skip | None:
        wanted = pod.labels.get("node")
        return None if wanted is None else NodeNames(frozenset(wanted.split(".")))

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        return None


class Broken(FilterPlugin, ReservePlugin, PermitPlugin):
    """Raises at the extension point in the pod's `break` label."""

    name = "Broken"

    def _raise_at(self, pod: Pod, point: str) -> None:
        if pod.labels.get("break") == point:
            raise ZeroDivisionError("one over nothing")

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        self._raise_at(pod, "filter")

    def reserve(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        self._raise_at(pod, "reserve")

    def unreserve(self, cycle: Cycle, pod: Pod, node_name: str) -> None:
        self._raise_at(pod, "reserve")

    def permit(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        self._raise_at(pod, "permit")


class LastNamed(ScorePlugin):
    """Prefers the node that comes last in the alphabet."""

    name = "LastNamed"
    reads = Reads.OWN_NODE

    @dataclass(frozen=True)
    class Args:
        """`best` is the score of the preferred letter."""

        best: int = 100

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        best: int = self.args.best
        return min(ord(node.name[-1]) - ord("a"), best)


class ByName(QueueSortPlugin):
    """Sorts pods by name, with `less`."""

    name = "ByName"

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        return a.pod.name < b.pod.name


class MakeRoom(PostFilterPlugin):
    """Nominates every pod that fits no node to the node of its `nominate` label."""

    name = "MakeRoom"

    def post_filter(self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis) -> Nominate | Rejection:
        wanted = pod.labels.get("nominate")
        return Nominate(wanted) if wanted else Rejection("no room to be made")


class Relay(ReservePlugin, PermitPlugin):
    """Makes pods with a `calls` label wait; when one is forgotten, the pod with that name is activated."""

    name = "Relay"
    indexes = ("name",)

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return ()

    def reserve(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        return None

    def unreserve(self, cycle: Cycle, pod: Pod, node_name: str) -> None:
        called = pod.labels.get("calls", "")
        self.handle.activate(self.handle.pods.by_label("name", pod.namespace, called).values())

    def permit(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Wait | Rejection | None:
        if "calls" in pod.labels:
            return Wait(5.0)
        return Rejection("not yet") if cycle.now < 1002 else None


class Licence(PermitPlugin):
    """Permits a pod while the Licence in its `licence` label has a token for it."""

    name = "Licence"
    watches = (LICENCE,)
    indexes = ("licence",)

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return (
            ClusterEventWithHint(LICENCE.kind, Action.ALL),
            ClusterEventWithHint(POD, Action.DELETE, self._frees_a_token),
        )

    def _frees_a_token(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        calls.append(("QueueingHint", pod.name))
        if pod.labels.get("break") == "hint":
            raise ZeroDivisionError("one over nothing")
        return QueueingHint.QUEUE if event.old.labels.get("licence") == pod.labels.get("licence") else QueueingHint.SKIP

    def permit(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Wait | Rejection | None:
        name = pod.labels.get("licence")
        if name is None:
            return None
        calls.append(("Permit", pod.name))
        licence = self.handle.objects[LICENCE].get(("", name))
        if licence is None:
            return Rejection(f"licence {name} does not exist")
        spec = licence["spec"]
        if spec["tokens"] == "broken":
            raise ZeroDivisionError("one over nothing")
        users = self.handle.pods.by_label("licence", pod.namespace, name)
        used = sum(self.handle.pods.is_assigned_or_assumed(uid) for uid in users)
        if used <= spec["tokens"] or cycle.now >= spec.get("freeFrom", math.inf):
            return None
        return Wait(20.0, f"{used - spec['tokens']} too many for licence {name}", spec.get("recheckEvery", 0.0))


class Undeclared(FilterPlugin):
    """Reads objects or pods that it has not declared, depending on the pod's `read` label."""

    name = "Undeclared"

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        match pod.labels.get("read"):
            case "objects":
                self.handle.objects[LICENCE]
            case "version":
                self.handle.objects.version(LICENCE)
            case "pods":
                self.handle.pods.by_label("app", pod.namespace, "x")
        return None


class Slow(PreBindPlugin):
    """PreBind takes a minute for pods with a `slow` label."""

    name = "Slow"

    async def pre_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> None:
        if "slow" in pod.labels:
            await api.sleep(60.0)


class ErrorWithoutText(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


class Unmakeable(FilterPlugin):
    """Raises `error` in its constructor."""

    name = "Unmakeable"
    error: ClassVar[Exception] = RuntimeError("no licence")

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        raise self.error

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        return None


class Approval(PermitPlugin):
    """Makes pods wait while their label `approved` has a value other than `yes`."""

    name = "Approval"

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return (ClusterEventWithHint(POD, Action.UPDATE_POD_LABEL),)

    def permit(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Wait | None:
        return None if pod.labels.get("approved", "yes") == "yes" else Wait(60.0, "not approved yet")


class MisbehavingPlugin(
    PreEnqueuePlugin,
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    ReservePlugin,
    PermitPlugin,
    PreBindPlugin,
    BindPlugin,
    PostBindPlugin,
):
    """Raises or returns the value in `acts` at the method in the pod's `at` label."""

    name = "MisbehavingPlugin"
    acts: ClassVar[list[Any]] = []

    def _act(self, pod: Pod, method: str, otherwise: Any = None) -> Any:
        if pod.labels.get("at") != method or not self.acts:
            return otherwise
        if isinstance(self.acts[0], BaseException):
            raise self.acts[0]
        return self.acts[0]

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return (ClusterEventWithHint(NODE, Action.ALL, self._hint),)

    def _hint(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        return cast(QueueingHint, self._act(pod, "hint", QueueingHint.QUEUE))

    def pre_enqueue(self, pod: Pod) -> Any:
        return self._act(pod, "pre_enqueue")

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Any:
        return self._act(pod, "pre_filter")

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Any:
        return self._act(pod, "filter", Rejection("no room") if pod.labels.get("at") == "post_filter" else None)

    def post_filter(self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis) -> Any:
        return self._act(pod, "post_filter", Rejection("no help"))

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Any:
        return self._act(pod, "pre_score")

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Any:
        return self._act(pod, "score", 1)

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Any:
        return self._act(pod, "score_all", super().score_all(cycle, pod, nodes))

    def normalize(self, cycle: Cycle, pod: Pod, scores: Scores) -> Any:
        return self._act(pod, "normalize", scores)

    def reserve(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Any:
        return self._act(pod, "reserve")

    def unreserve(self, cycle: Cycle, pod: Pod, node_name: str) -> None:
        self._act(pod, "unreserve")

    def permit(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Any:
        return Rejection("not now") if pod.labels.get("at") == "unreserve" else self._act(pod, "permit")

    def pre_bind_pre_flight(self, cycle: Cycle, pod: Pod, node_name: str) -> Any:
        return self._act(pod, "pre_bind_pre_flight")

    async def pre_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> Any:
        return self._act(pod, "pre_bind")

    async def bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> Any:
        return self._act(pod, "bind", SKIP)

    async def post_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> Any:
        return self._act(pod, "post_bind")


class Registers(PreBindPlugin):
    """Sends the pod's name to a TCP server on the port in its `port` label, and waits for the response."""

    name = "Registers"

    async def pre_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> Rejection | None:
        async with asyncio.timeout(10):
            reader, writer = await asyncio.open_connection("127.0.0.1", int(pod.labels["port"]))
            writer.write(f"{pod.name}\n".encode())
            answer = (await reader.readline()).decode().strip()
            writer.close()
        return None if answer == "welcome" else Rejection(f"the registry answered {answer}")


class TakesToken(PreBindPlugin):
    """Takes a token from the Licence in the pod's `licence` label, polling the API server until there is one."""

    name = "TakesToken"

    async def pre_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> Rejection | None:
        path = f"/apis/example.com/v1/licences/{pod.labels['licence']}"
        for _ in range(5):
            licence = await api.get(path)
            if licence["spec"]["tokens"] > 0:
                licence = {**licence, "spec": {"tokens": licence["spec"]["tokens"] - 1}}
                await api.replace(path, licence)
                return None
            await api.sleep(2)
        return Rejection("no token came in time")


@dataclass(frozen=True, slots=True)
class FailsOnArgs:
    """`node` is the name of the node for which Filter fails."""

    node: str = ""


class HoldsEvictions(PermitPlugin, PreEnqueuePlugin):
    """Rejects evictions for pods labelled `evict: no`, and gates those labelled `gate: yes` with a reason."""

    name = "HoldsEvictions"
    reports_gating = True
    counts_succeeded = True
    indexes = ("job",)

    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        return Rejection("not before noon") if pod.labels.get("gate") == "yes" else None

    def permit(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        return None

    def handle_unschedulable(
        self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis, nominated: Nominate | None
    ) -> Rejection | None:
        calls.append(("handle_unschedulable", f"{pod.name} {nominated.node_name if nominated else ''}".rstrip()))
        match pod.labels.get("evict"):
            case "no":
                return Rejection("not now")
            case "never":
                self.handle.nominator.clear([pod])
                return Rejection("never")
            case "broken":
                raise ZeroDivisionError("one over nothing")
            case "wrong":
                return cast(Rejection, Wait(60.0))
        return None


class FailsOn(FilterPlugin):
    """Filter raises an error for one node, and accepts all others."""

    name = "FailsOn"
    Args = FailsOnArgs

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        if node.name == self.args.node:
            raise StatusError(f"no answer for {node.name}")
