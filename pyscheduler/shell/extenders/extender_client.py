"""Carries out what the machine wants to know of extenders, and lets those that bind do so.

Nothing that an extender does can hold the machine up for longer than its httpTimeout: whatever goes wrong is an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from pyscheduler.api import ApiWriter, BindPlugin, ClusterEventWithHint, Cycle, Handle, Pod
from pyscheduler.api.outcome import SKIP, Skip
from pyscheduler.config.extenders import build_extenders
from pyscheduler.config.problems import ConfigError, Problem
from pyscheduler.config.types import Extender as Configured
from pyscheduler.config.types import KubeSchedulerConfiguration
from pyscheduler.core.commands import BindingPlan, CallExtenders
from pyscheduler.core.events import Event, ExtendersResponded
from pyscheduler.core.extender import (
    EXTENDER,
    Extender,
    ExtenderCall,
    ExtenderCallFailed,
    ExtenderFailed,
    ExtenderResult,
    FilterCall,
    PreemptCall,
    PrioritizeCall,
)
from pyscheduler.core.framework.profile import Profile
from pyscheduler.shell import logs
from pyscheduler.shell.clock import Clock
from pyscheduler.shell.extenders import wire
from pyscheduler.shell.extenders.client import Client, UnusableTLS
from pyscheduler.shell.extenders.raw_objects import RawObjectCaches

log = logs.get("extenders")


class ExtenderClients:
    """The extenders of a configuration: who asks them, and what they are sent."""

    def __init__(self, configuration: KubeSchedulerConfiguration, clock: Clock, kept: RawObjectCaches) -> None:
        """ConfigError if one of them cannot be reached as it is configured. What they are sent is in `kept`."""
        self.known = build_extenders(configuration)
        self._configured = configuration.extenders
        self._clients = [_client(place, given) for place, given in enumerate(configuration.extenders)]
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()
        self._kept = kept

    def call(self, command: CallExtenders, emit: Callable[[Event], None]) -> None:
        """Make the calls, and emit what they return."""
        task = asyncio.create_task(self._call(command, emit))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def with_binders(self, profiles: Sequence[Profile], handle: Handle) -> tuple[Profile, ...]:
        """The profiles, with the extenders that bind before their Bind plugins."""
        binders = tuple(
            ExtenderBinder(extender, self._clients[extender.place], self._configured[extender.place], handle)
            for extender in self.known
            if self._configured[extender.place].bind_verb
        )
        return tuple(replace(profile, plan=_with_binders(profile.plan, binders)) for profile in profiles)

    def bind_by(self, plan: BindingPlan) -> bool:
        """Whether one of these extenders is among those that bind by the plan."""
        return any(isinstance(plugin, ExtenderBinder) and plugin.client in self._clients for plugin in plan.bind)

    def stop(self) -> None:
        """Ask nothing more; pods that extenders were asked about stay as they are."""
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """Stop, and drop all connections."""
        self.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for client in self._clients:
            await client.close()

    async def _call(self, command: CallExtenders, emit: Callable[[Event], None]) -> None:
        answers = await asyncio.gather(*(self._answer(command.pod, call) for call in command.calls))
        emit(ExtendersResponded(self._clock.now(), command.id, tuple(answers)))

    async def _answer(self, pod: Pod, call: ExtenderCall) -> ExtenderResult:
        """What comes of one call; never raises."""
        extender = call.extender
        try:
            return await self._ask(pod, call)
        except ExtenderFailed as failed:
            log.warning("An extender failed", failed, pod=pod.key, url=extender.url, ignorable=extender.ignorable)
            return ExtenderCallFailed(str(failed))
        except Exception as error:
            log.crash("An extender could not be asked", error, pod=pod.key, url=extender.url)
            return ExtenderCallFailed(f"extender at URL {extender.url} could not be asked: {error!r}")

    async def _ask(self, pod: Pod, call: ExtenderCall) -> ExtenderResult:
        configured, client = self._configured[call.extender.place], self._clients[call.extender.place]
        verb, body = self._request(pod, call, configured)
        answer = await client.send(verb, body)
        try:
            if isinstance(call, FilterCall):
                return wire.parse_filter_result(
                    answer, call.nodes, configured.url_prefix, configured.node_cache_capable
                )
            return (
                wire.parse_host_priorities(answer)
                if isinstance(call, PrioritizeCall)
                else wire.parse_preemption_result(answer)
            )
        except wire.UnreadableResponse as problem:
            raise client.failure(verb, f"its answer cannot be read: {problem}") from None

    def _request(self, pod: Pod, call: ExtenderCall, configured: Configured) -> tuple[str, bytes]:
        """The verb and the body of a call. ExtenderFailed if the pod is gone, so that there is nothing to be sent."""
        whole = self._whole(pod)
        if whole is None:
            raise ExtenderFailed(f"pod {pod.key} is gone")
        if isinstance(call, PreemptCall):
            if configured.node_cache_capable:
                return configured.preempt_verb, wire.meta_victims_request(whole, call.candidates)
            return configured.preempt_verb, wire.victims_request(whole, call.candidates, self._whole)
        verb = configured.filter_verb if isinstance(call, FilterCall) else configured.prioritize_verb
        if configured.node_cache_capable:
            return verb, wire.names_request(whole, call.nodes)
        nodes = (self._kept.nodes.get(name) for name in call.nodes)
        return verb, wire.nodes_request(whole, [node for node in nodes if node is not None])

    def _whole(self, pod: Pod) -> bytes | None:
        return self._kept.pods.get(pod.name, pod.namespace)


class ExtenderBinder(BindPlugin):
    """Lets an extender bind the pods that are its business."""

    name = EXTENDER
    reads_labels = False
    binds_without_api = True

    def __init__(self, extender: Extender, client: Client, configured: Configured, handle: Handle) -> None:
        super().__init__(None, handle)
        self._extender = extender
        self.client = client
        self._verb = configured.bind_verb

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return ()

    async def bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> Skip | None:  # noqa: ARG002
        """ExtenderFailed if it does not bind the pod; one that is ignorable leaves it to the next."""
        if not self._extender.is_interested(pod):
            return SKIP
        try:
            answer = await self.client.send(self._verb, wire.binding_request(pod, node_name))
            try:
                wire.parse_binding_result(answer)
            except wire.UnreadableResponse as problem:
                raise self.client.failure(self._verb, f"its answer cannot be read: {problem}") from None
        except ExtenderFailed as failed:
            if not self._extender.ignorable:
                raise
            log.warning("An extender failed to bind and is ignored", failed, pod=pod.key, url=self._extender.url)
            return SKIP
        return None


def _client(place: int, configured: Configured) -> Client:
    try:
        return Client(configured)
    except UnusableTLS as problem:
        raise ConfigError([Problem(f"extenders[{place}].tlsConfig", str(problem))]) from None


def _with_binders(plan: BindingPlan, binders: tuple[ExtenderBinder, ...]) -> BindingPlan:
    return BindingPlan(plan.pre_bind, (*binders, *plan.bind), plan.post_bind)
