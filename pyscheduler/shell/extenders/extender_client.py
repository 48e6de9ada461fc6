"""Call the configured extenders for the core, and bind pods through extenders with a bind verb.

A call blocks its pod for at most httpTimeout: every failure is returned as a result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from pyscheduler import logs
from pyscheduler.api import ApiWriter, BindPlugin, ClusterEventWithHint, Cycle, Handle, Pod
from pyscheduler.api.outcome import SKIP, Skip
from pyscheduler.clock import Clock
from pyscheduler.config.extenders import build_extenders
from pyscheduler.config.problems import ConfigError, Problem
from pyscheduler.config.types import ExtenderConfig as Configured
from pyscheduler.config.types import KubeSchedulerConfiguration
from pyscheduler.core.commands import BindingPlan, CallExtenders
from pyscheduler.core.events import Event, ExtendersResponded
from pyscheduler.core.extenders.extender import (
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
from pyscheduler.shell.extenders import wire
from pyscheduler.shell.extenders.client import Client, UnusableTLS
from pyscheduler.shell.extenders.raw_objects import RawObjectCaches


class ExtenderClients:
    """Clients of all extenders of a configuration."""

    def __init__(self, configuration: KubeSchedulerConfiguration, clock: Clock, raw_objects: RawObjectCaches) -> None:
        """ConfigError if the TLS settings of one are invalid. `raw_objects` holds the raw objects for the requests."""
        self.known = build_extenders(configuration)
        self._configured = configuration.extenders
        self._clients = [_client(place, given) for place, given in enumerate(configuration.extenders)]
        self._clock = clock
        self._log = logs.LimitedLog("extenders", clock.now)
        self._tasks: set[asyncio.Task[None]] = set()
        self._raw_objects = raw_objects

    def call_extenders(self, command: CallExtenders, emit: Callable[[Event], None]) -> None:
        """Start the calls of a command; the results are emitted."""
        task = asyncio.create_task(self._call_all(command, emit))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def with_binders(self, profiles: Sequence[Profile], handle: Handle) -> tuple[Profile, ...]:
        """Return the profiles with the binding extenders placed before their Bind plugins."""
        binders = tuple(
            ExtenderBinder(extender, self._clients[extender.place], self._configured[extender.place], handle)
            for extender in self.known
            if self._configured[extender.place].bind_verb
        )
        return tuple(replace(profile, plan=_with_binders(profile.plan, binders)) for profile in profiles)

    def bind_by(self, plan: BindingPlan) -> bool:
        """Return True if the plan binds through one of these extenders."""
        return any(isinstance(plugin, ExtenderBinder) and plugin.client in self._clients for plugin in plan.bind)

    def stop(self) -> None:
        """Cancel all calls; the pods that they are for stay as they are."""
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """Cancel all calls and close all connections."""
        self.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for client in self._clients:
            await client.close()

    async def _call_all(self, command: CallExtenders, emit: Callable[[Event], None]) -> None:
        results = await asyncio.gather(*(self._call_guarded(command.pod, call) for call in command.calls))
        emit(ExtendersResponded(self._clock.now(), command.id, tuple(results)))

    async def _call_guarded(self, pod: Pod, call: ExtenderCall) -> ExtenderResult:
        """Return the result of one call; never raises."""
        extender = call.extender
        try:
            return await self._call(pod, call)
        except ExtenderFailed as failed:
            self._log.warning(
                "Extender call failed", failed, pod=pod.key, url=extender.url, ignorable=extender.ignorable
            )
            return ExtenderCallFailed(str(failed))
        except Exception as error:
            self._log.crash("Extender call raised an exception", error, pod=pod.key, url=extender.url)
            return ExtenderCallFailed(f"extender at URL {extender.url} could not be called: {error!r}")

    async def _call(self, pod: Pod, call: ExtenderCall) -> ExtenderResult:
        configured, client = self._configured[call.extender.place], self._clients[call.extender.place]
        verb, body = self._request(pod, call, configured)
        response = await client.send(verb, body)
        try:
            if isinstance(call, FilterCall):
                return wire.parse_filter_result(
                    response, call.nodes, configured.url_prefix, configured.node_cache_capable
                )
            return (
                wire.parse_host_priorities(response)
                if isinstance(call, PrioritizeCall)
                else wire.parse_preemption_result(response)
            )
        except wire.UnreadableResponse as problem:
            raise client.failure(verb, f"cannot decode its response: {problem}") from None

    def _request(self, pod: Pod, call: ExtenderCall, configured: Configured) -> tuple[str, bytes]:
        """Return the verb and the body of a call. ExtenderFailed if the pod no longer exists."""
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
        nodes = (self._raw_objects.nodes.get(name) for name in call.nodes)
        return verb, wire.nodes_request(whole, [node for node in nodes if node is not None])

    def _whole(self, pod: Pod) -> bytes | None:
        return self._raw_objects.pods.get(pod.name, pod.namespace)


class ExtenderBinder(BindPlugin):
    """Bind plugin that delegates to an extender the pods that it manages."""

    name = EXTENDER
    reads_labels = False
    binds_without_api = True

    def __init__(self, extender: Extender, client: Client, configured: Configured, handle: Handle) -> None:
        super().__init__(None, handle)
        self._extender = extender
        self._log = logs.LimitedLog("extenders")
        self.client = client
        self._verb = configured.bind_verb

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return ()

    async def bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> Skip | None:  # noqa: ARG002
        """Return SKIP if the extender is not interested, or failed and is ignorable. ExtenderFailed."""
        if not self._extender.is_interested(pod):
            return SKIP
        try:
            response = await self.client.send(self._verb, wire.binding_request(pod, node_name))
            try:
                wire.parse_binding_result(response)
            except wire.UnreadableResponse as problem:
                raise self.client.failure(self._verb, f"cannot decode its response: {problem}") from None
        except ExtenderFailed as failed:
            if not self._extender.ignorable:
                raise
            self._log.warning("Extender failed to bind, ignoring it", failed, pod=pod.key, url=self._extender.url)
            return SKIP
        return None


def _client(place: int, configured: Configured) -> Client:
    try:
        return Client(configured)
    except UnusableTLS as problem:
        raise ConfigError([Problem(f"extenders[{place}].tlsConfig", str(problem))]) from None


def _with_binders(plan: BindingPlan, binders: tuple[ExtenderBinder, ...]) -> BindingPlan:
    return BindingPlan(plan.pre_bind, (*binders, *plan.bind), plan.post_bind)
