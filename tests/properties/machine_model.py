"""A whole scheduler among random events, and books of what it did that are kept without its help.

The books know what the watch has shown and which places have been reserved, so they can tell when a node is oversold,
when a pod is bound twice at once, and when a binding is not told of exactly once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from hypothesis import strategies as st

from pyscheduler.api import Cycle, NodeInfo, Pod
from pyscheduler.api.resources import amount
from pyscheduler.config.load import loads
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.core.commands import Bind, Command, Evict, PatchStatus, Record
from pyscheduler.core.decide.decider import Choice, Decider
from pyscheduler.core.events import BindFailed, Bound, EvictFailed
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.invariants import validate
from pyscheduler.core.queue import Tier
from pyscheduler.testing import Harness, NodeBuilder, PodBuilder, node, pod
from tests.properties.scripted_permit import ScriptedPermit
from tests.properties.state_steps import scripts

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {multiPoint: {enabled: [{name: "tests.properties.scripted_permit:ScriptedPermit"}]}}
"""
Step = tuple[str, int, int]
"""What happens, to whom (a pod or a node by number), and of which kind."""

_PODS = (
    "pod",
    "pod",
    "pod",
    "pod",
    "pod",
    "pod",
    "again",
    "delete",
    "mark",
    "end",
    "gate",
    "relabel",
    "nominate",
    "theirs",
)
_NODES = ("node", "node", "node", "drop")
_BINDINGS = ("finish", "finish", "finish", "refuse", "lose", "show", "show", "pretend", "hide")
_EVICTIONS = ("evict", "evict", "linger", "spare")
_REST = ("mood", "settle", "time", "time")
WHAT = (*_PODS, *_NODES, *_BINDINGS, *_EVICTIONS, *_REST)
STEPS = scripts(st.tuples(st.sampled_from(WHAT), st.integers(0, 9), st.integers(0, 11)), longest=40)
MOODS = ("yes", "yes", "wait", "wait", "reserve", "permit", "prebind")
SECONDS = (0.0, 0.05, 0.5, 1.5, 6.0, 25.0, 310.0)


@cache
def config() -> LoadedConfig:
    """CONFIG, read once for all worlds."""
    return loads(CONFIG)


def node_of(name: str, kind: int) -> NodeBuilder:
    built = node(name, cpu=("1", "2", "3", "0")[kind % 4], pods=("3", "110")[kind % 2])
    return (built, built.label("disk", "ssd"), built.taint("odd"))[kind % 3]


def pod_of(name: str, kind: int) -> PodBuilder:
    """Of few shapes, so that many pods share one."""
    return (
        pod(name).requests(cpu="1"),
        pod(name).requests(cpu="2").priority(10),
        pod(name).requests(cpu="500m").node_selector(disk="ssd"),
        pod(name).requests(cpu="1").tolerates("odd", operator="Exists").host_port(80),
    )[kind % 4]


@dataclass
class Books:
    """What is known of pods by UID, from outside."""

    alive: dict[str, PodBuilder] = field(default_factory=dict)
    """As the watch showed them last."""
    bound_to: dict[str, str] = field(default_factory=dict)
    """What the API server holds; the watch may have yet to show it."""
    binding: set[str] = field(default_factory=set)
    """Who is being bound."""
    scheduled: Counter[str] = field(default_factory=Counter)
    """How many Scheduled events there have been."""
    false_confirmations: Counter[str] = field(default_factory=Counter)
    """Number of binding responses that confirmed a binding that was never made."""
    found: dict[str, int] = field(default_factory=dict)
    """Pods that a lookup has shown on a node, each with the number of commands until then."""
    owed: set[str] = field(default_factory=set)
    """Whose binding must have been told of."""

    def place_of(self, uid: str) -> str:
        """The node that the watch has shown the pod on, or ""."""
        return str(self.alive[uid].manifest["spec"].get("nodeName", "")) if uid in self.alive else ""


class MachineWorld:
    """Steps are done one by one, each followed by attempts and a look at everything."""

    def __init__(self, seed: int = 0) -> None:
        self.harness = Harness(config(), seed=seed)
        self.harness.complete_bindings = self.harness.complete_evictions = False
        self.harness.binding_error = self._refusal
        self.harness.find_pod = self._found
        (plugin,) = self.harness.machine.context.profiles["default-scheduler"].permit
        assert isinstance(plugin, ScriptedPermit)
        self.permit_plugin = plugin
        self.permit_plugin.on_reserve = self._look_for_room
        self.books = Books()
        self._nodes: dict[str, NodeBuilder] = {}
        self._orphans: list[Bind] = []
        """Bindings of pods that are gone: their end is yet to be told."""
        self._doomed: list[Evict] = []
        """Evictions that the API server has not heard of yet."""
        self._wrong: list[str] = []
        self._born = 0
        self._read = 0
        for name, kind in (("n0", 0), ("n1", 9)):
            self._node(name, kind)

    def do(self, step: Step) -> None:
        what, who, kind = step
        getattr(self, f"_{what}")(self._whom(what, who), kind)
        self.harness.run()
        self._look()

    def _whom(self, what: str, who: int) -> str:
        if what in _NODES:
            return f"n{who % 4}"
        if what in _BINDINGS and self.harness.pending_bindings:
            held = list(self.harness.pending_bindings.values())
            return held[who % len(held)].pod.name
        return f"p{who}"

    def heal(self) -> None:
        """There is room for everyone, all gates open, who is being deleted goes, and much time passes."""
        for i in range(10):
            self.harness.add(self._node_told(f"big{i}", node(f"big{i}", cpu="64").label("disk", "ssd")))
        for uid, built in list(self.books.alive.items()):
            if _is_deleting(built):
                self._delete(built.manifest["metadata"]["name"], 0)
            else:
                self._see(uid, _ungated(built))
        self.calm_down(400.0)

    def calm_down(self, seconds: float) -> None:
        """Nothing fails any more, and time passes, four times `seconds`."""
        self.permit_plugin.mood = "yes"
        self.permit_plugin.settle(allow=True)
        for _ in range(4):
            self.harness.advance(seconds)
            while self._doomed:
                self._evict("", 0)
            for bind in list(self.harness.pending_bindings.values()):
                self._finish(bind.pod.name, 0)
            for uid, built in list(self.books.alive.items()):
                self._see(uid, built)
            self._look()

    def overslept(self) -> list[str]:
        """Pods that wait to be woken although they would fit if they were tried."""
        context = self.harness.machine.context
        profile = context.profiles["default-scheduler"]
        decider = Decider(profile, context.state, context.queue.nominator, Instrument())
        tiers = context.queue.known()
        asleep = [q.pod for tier, q in tiers if tier is Tier.UNSCHEDULABLE and not q.pod.deleting]
        tries = [(pod, decider.decide(Cycle(0.0, profile.name, pod.uid), pod)) for pod in asleep]
        return [f"{pod} would fit {tried.node.name}" for pod, tried in tries if isinstance(tried, Choice)]

    def left_over(self) -> list[str]:
        """Pods of ours that should have been bound and are not."""
        books = self.books
        return [uid for uid, built in books.alive.items() if not books.place_of(uid) and not _is_deleting(built)]

    # -- pods ------------------------------------------------------------------------------------------------------

    def _pod(self, name: str, kind: int) -> None:
        """A pod is created, unless there is one of that name."""
        if self._uid(name) is None:
            self._create(name, pod_of(name, kind))

    def _again(self, name: str, kind: int) -> None:
        """A pod is deleted and made again, and the watch shows only the new one."""
        old = self._uid(name)
        if old is not None:
            self._bury(old, name)
            self._create(name, pod_of(name, kind))

    def _delete(self, name: str, _: int) -> None:
        uid = self._uid(name)
        if uid is not None:
            self._bury(uid, name)
            self.harness.delete_pod(name)

    def _end(self, name: str, kind: int) -> None:
        """A pod that runs comes to its end."""
        uid = self._uid(name)
        if uid is not None and self.books.place_of(uid):
            ended = self.books.alive[uid].phase(("Succeeded", "Failed")[kind % 2])
            self._bury(uid, name)
            self.harness.add(ended)
            self.harness.delete_pod(name)

    def _mark(self, name: str, _: int) -> None:
        """A deletion begins."""
        self._change(name, lambda built: built.deleting())

    def _gate(self, name: str, kind: int) -> None:
        """A gated pod is created, or loses its gates."""
        if self._uid(name) is None:
            self._create(name, pod_of(name, kind).gate("wait"))
        else:
            self._change(name, _ungated)

    def _relabel(self, name: str, kind: int) -> None:
        self._change(name, lambda built: built.label("kind", str(kind)))

    def _tolerate(self, name: str, _: int) -> None:
        self._change(name, lambda built: built.tolerates("odd", operator="Exists"))

    def _resize(self, name: str, kind: int) -> None:
        """A pod asks for less or more, where it runs or before it does."""
        self._change(name, lambda built: built.requests(cpu=("100m", "1", "2")[kind % 3]))

    def _nominate(self, name: str, kind: int) -> None:
        self._change(name, lambda built: built.nominated(f"n{kind % 5}" if kind % 3 else ""))

    def _theirs(self, name: str, kind: int) -> None:
        """Somebody else binds a pod of ours, whatever we are about to do with it."""
        uid = self._uid(name)
        if uid is not None and self._may_bind(uid):
            self.books.bound_to[uid] = f"n{kind % 4}"
            self._see(uid, self.books.alive[uid])

    def _uid(self, name: str) -> str | None:
        return next((uid for uid in self.books.alive if uid.startswith(f"{name}-")), None)

    def _create(self, name: str, built: PodBuilder) -> None:
        self._born += 1
        uid = f"{name}-{self._born}"
        self._see(uid, built.uid(uid))

    def _change(self, name: str, change: Callable[[PodBuilder], PodBuilder]) -> None:
        uid = self._uid(name)
        if uid is not None:
            self._see(uid, change(self.books.alive[uid]))

    def _see(self, uid: str, built: PodBuilder) -> None:
        """The watch shows a version of a pod, bound if the API server has it so."""
        bound_to = self.books.bound_to.get(uid)
        self.books.alive[uid] = built.on(bound_to) if bound_to else built
        self.harness.add(self.books.alive[uid])

    def _bury(self, uid: str, name: str) -> None:
        """The pod is about to go."""
        del self.books.alive[uid]
        bind = self.harness.pending_bindings.pop(f"default/{name}", None)
        if bind is not None:
            self._orphans.append(bind)

    # -- nodes -----------------------------------------------------------------------------------------------------

    def _node(self, name: str, kind: int) -> None:
        self.harness.add(self._node_told(name, node_of(name, kind)))

    def _node_told(self, name: str, built: NodeBuilder) -> NodeBuilder:
        self._nodes[name] = built
        return built

    def _drop(self, name: str, _: int) -> None:
        if self._nodes.pop(name, None) is not None:
            self.harness.delete_node(name)

    # -- bindings --------------------------------------------------------------------------------------------------

    def _refusal(self, pod: Pod, node_name: str) -> str:
        """The API server binds a pod once, and none that is being deleted."""
        bound_to = self.books.bound_to.get(pod.uid)
        if bound_to is not None:
            return "" if bound_to == node_name else f"already assigned to {bound_to}"
        return "" if self._may_bind(pod.uid) else "is being deleted, cannot be assigned to a host"

    def _may_bind(self, uid: str) -> bool:
        return uid not in self.books.bound_to and uid in self.books.alive and not _is_deleting(self.books.alive[uid])

    def _finish(self, name: str, _: int) -> None:
        """A binding cycle runs to its end."""
        bind = self.harness.pending_bindings.get(f"default/{name}")
        if bind is None:
            self._end_orphan()
            return
        uid = bind.pod.uid
        accepted = self.permit_plugin.mood != "prebind" and not self._refusal(bind.pod, bind.node_name)
        if accepted or self.books.place_of(uid) == bind.node_name:
            self.books.owed.add(uid)
        if accepted:
            self.books.bound_to[uid] = bind.node_name
            self.books.alive[uid] = self.books.alive[uid].on(bind.node_name)
        self.books.binding.discard(uid)
        self.harness.finish_binding(name)

    def _refuse(self, name: str, _: int) -> None:
        """The API server refuses, or there is no server at all."""
        self._fail(name, takes_effect=False)

    def _lose(self, name: str, _: int) -> None:
        """The API server binds the pod, and its answer is lost; the watch will show it."""
        self._fail(name, takes_effect=True)

    def _fail(self, name: str, takes_effect: bool) -> None:
        bind = self.harness.pending_bindings.pop(f"default/{name}", None)
        if bind is None:
            return
        uid = bind.pod.uid
        if self.books.place_of(uid) == bind.node_name:
            self.books.owed.add(uid)
        elif takes_effect and self._may_bind(uid):
            self.books.bound_to[uid] = bind.node_name
        self.books.binding.discard(uid)
        self.harness.handle_event(BindFailed(self.harness.now, uid, "connection reset"))

    def _pretend(self, name: str, _: int) -> None:
        """Something answers in the place of the API server, which never sees the binding."""
        self._accept(name, is_made=False)

    def _hide(self, name: str, _: int) -> None:
        """The API server binds the pod, and the watch does not show it yet."""
        self._accept(name, is_made=True)

    def _accept(self, name: str, is_made: bool) -> None:
        bind = self.harness.pending_bindings.pop(f"default/{name}", None)
        if bind is None:
            return
        uid = bind.pod.uid
        if self.books.place_of(uid) == bind.node_name:
            self.books.owed.add(uid)
        elif is_made and self._may_bind(uid):
            self.books.bound_to[uid] = bind.node_name
        else:
            self.books.false_confirmations[uid] += 1
        self.books.binding.discard(uid)
        self.harness.handle_event(Bound(self.harness.now, uid))

    def _found(self, pod: Pod) -> PodBuilder | None:
        """A pod as the API server has it."""
        uid = self._uid(pod.name)
        if uid is None:
            return None
        bound_to = self.books.bound_to.get(uid)
        if bound_to is not None:
            self.books.found.setdefault(uid, len(self.harness.commands))
        return self.books.alive[uid].on(bound_to) if bound_to else self.books.alive[uid]

    def _show(self, name: str, _: int) -> None:
        """The watch is quicker than the answer to the binding, or shows what was lost."""
        uid, bind = self._uid(name), self.harness.pending_bindings.get(f"default/{name}")
        if uid is not None and bind is not None and self._may_bind(uid):
            self.books.bound_to[uid] = bind.node_name
        self._change(name, lambda built: built)

    def _end_orphan(self) -> None:
        if self._orphans:
            bind = self._orphans.pop(0)
            self.books.binding.discard(bind.pod.uid)
            self.harness.handle_event(BindFailed(self.harness.now, bind.pod.uid, "not found"))

    # -- evictions -------------------------------------------------------------------------------------------------

    def _evict(self, _: str, which: int) -> None:
        """A victim goes at once."""
        name = self._victim(which)
        if name:
            self._delete(name, 0)

    def _linger(self, _: str, which: int) -> None:
        """A victim takes its time to end."""
        self._mark(self._victim(which), 0)

    def _spare(self, _: str, which: int) -> None:
        """The API server does not let a victim go."""
        if self._doomed:
            doomed = self._doomed.pop(which % len(self._doomed))
            self.harness.handle_event(
                EvictFailed(self.harness.now, doomed.preemptor.uid, "try later", doomed.victim.uid)
            )

    def _victim(self, which: int) -> str:
        """The name of somebody who is to be evicted and still there, "" for nobody."""
        doomed = self._doomed.pop(which % len(self._doomed)).victim if self._doomed else None
        return doomed.name if doomed is not None and doomed.uid in self.books.alive else ""

    # -- the rest --------------------------------------------------------------------------------------------------

    def _mood(self, _: str, kind: int) -> None:
        self.permit_plugin.mood = MOODS[kind % len(MOODS)]

    def _settle(self, _: str, kind: int) -> None:
        self.permit_plugin.settle(allow=kind % 3 > 0)
        self.harness.advance(0.0)

    def _time(self, _: str, kind: int) -> None:
        self.harness.advance(SECONDS[kind % len(SECONDS)])

    # -- what must be true -----------------------------------------------------------------------------------------

    def _look_for_room(self, pod: Pod, chosen: NodeInfo) -> None:
        """Called as soon as the pod has its place, so all that count there are on the node now.

        What is wrong is remembered: an exception here would pass for the plugin's own.
        """
        there = [uid for uid in self.books.alive if self._counts_on(uid) == chosen.name]
        told = self._nodes[chosen.name].manifest["status"]["allocatable"]
        asked = sum(_cpu(self.books.alive[uid]) for uid in there)
        if pod.uid not in there:
            self._wrong.append(f"{pod} was to be tried and is not known to be there")
        if asked > amount("cpu", told["cpu"]):
            self._wrong.append(f"{chosen.name} has {told['cpu']} cpu, asked for {asked}m: {there}")
        if len(there) > int(told["pods"]):
            self._wrong.append(f"{chosen.name} takes {told['pods']} pods, gets {there}")

    def _counts_on(self, uid: str) -> str:
        return self.books.place_of(uid) or self.permit_plugin.reserved.get(uid, "")

    def _look(self) -> None:
        validate(self.harness.machine.context)
        assert not self._wrong, self._wrong[0]
        for at, command in enumerate(self.harness.commands[self._read :], self._read):
            self._note(command, at)
        self._read = len(self.harness.commands)
        books, queue = self.books, self.harness.machine.context.queue
        for uid, n in books.scheduled.items():
            assert n <= 1 + books.false_confirmations[uid], f"{uid} has {n} Scheduled events"
        for uid in books.owed:
            assert books.scheduled[uid], f"the binding of {uid} was never told of"
        for uid in self.permit_plugin.reserved:
            assert uid not in queue, f"{uid} waits in the queue and holds a reservation"

    def _note(self, command: Command, at: int) -> None:
        if isinstance(command, Bind):
            uid = command.pod.uid
            assert uid not in self.books.binding, f"{uid} is bound twice at once"
            shown = self.books.found.get(uid, at)
            assert at <= shown, f"{uid} is bound again after a lookup has shown its node"
            self.books.binding.add(uid)
        elif isinstance(command, Record) and command.reason == "Scheduled":
            self.books.scheduled[command.regarding.uid] += 1
        elif isinstance(command, Evict):
            self._doomed.append(command)
        elif isinstance(command, PatchStatus) and command.nominated_node_name is not None:
            self._nominated(command.pod.uid, command.nominated_node_name)

    def _nominated(self, uid: str, node_name: str) -> None:
        """The harness has shown the pod so already."""
        if uid in self.books.alive:
            self.books.alive[uid] = self.books.alive[uid].nominated(node_name)


def prove_sound(script: list[Step]) -> None:
    """Whatever happens, everybody is bound in the end."""
    world = MachineWorld()
    for step in script:
        world.do(step)
    world.heal()
    assert not world.left_over(), f"never bound: {world.left_over()}"


def prove_woken(script: list[Step]) -> None:
    """Whatever happens, nobody goes on waiting who would fit."""
    world = MachineWorld()
    for step in script:
        world.do(step)
    # Longer than any backoff, too short for the flush of pods that have waited for five minutes.
    world.calm_down(13.0)
    assert not world.overslept(), world.overslept()


def _cpu(built: PodBuilder) -> int:
    """What the pod asks for, in thousandths."""
    return amount("cpu", built.manifest["spec"]["containers"][0]["resources"]["requests"]["cpu"])


def _ungated(built: PodBuilder) -> PodBuilder:
    spec = {name: value for name, value in built.manifest["spec"].items() if name != "schedulingGates"}
    return PodBuilder({**built.manifest, "spec": spec})


def _is_deleting(built: PodBuilder) -> bool:
    return "deletionTimestamp" in built.manifest["metadata"]
