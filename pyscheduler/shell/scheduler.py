"""Scheduler: connects reflectors, core and executor; starts them, waits for sync, stops gracefully."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import msgspec

from pyscheduler import logs
from pyscheduler.api.events import ResourceKind
from pyscheduler.api.objects import NodeObject, PodObject
from pyscheduler.clock import Clock
from pyscheduler.config.binding_timeout import binding_timeout
from pyscheduler.config.build import build_profiles
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.config.problems import ConfigError, Problem
from pyscheduler.config.rebuild import rebuild_profiles
from pyscheduler.core.context import Settings
from pyscheduler.core.events import Reconfigured
from pyscheduler.core.extenders.extender import Extender
from pyscheduler.core.framework.handle import CoreHandle
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.machine import Machine
from pyscheduler.core.state.cluster import DEFAULT_TOPOLOGY_KEYS
from pyscheduler.kube.connection import Connection
from pyscheduler.kube.decode import ObjectDecoder, Refusals
from pyscheduler.kube.paths import LIVE_PODS, NODES, PODS, SUCCEEDED_PODS
from pyscheduler.kube.reflector import Change, Reflector, Watched
from pyscheduler.shell import gc_tuning
from pyscheduler.shell.binding.concurrency import ConcurrencyLimit, InFlightCounter
from pyscheduler.shell.executor import ApiClients, Executor
from pyscheduler.shell.extenders.registry import ExtenderRegistry
from pyscheduler.shell.gauges import register_gauges
from pyscheduler.shell.instrument import MetricsInstrument
from pyscheduler.shell.leadership import ALWAYS_LEADER, Leadership, Work
from pyscheduler.shell.loop import ChangeHandlers, Loop
from pyscheduler.shell.metrics import Metrics
from pyscheduler.shell.recording.machine import RecordedMachine
from pyscheduler.shell.recording.writer import RecordingWriter
from pyscheduler.shell.writers.recorder import Recorder
from pyscheduler.shell.writers.status import StatusWriter
from pyscheduler.shell.writers.writer import KubeWriter

log = logs.get("scheduler")
LISTING = 30.0
"""Seconds that listing the additional resources of a changed configuration may take."""
GRACE = 10.0
"""Seconds that bindings and conditions in flight may take when the scheduler stops."""
EVENT_FLUSH_TIMEOUT = 5.0
"""Seconds that writing the queued Events may take after that."""


class Connections(msgspec.Struct):
    """Connections to the API server. Events have their own, so that they never occupy one of a binding."""

    calls: Connection
    """Must reject writes while the scheduler does not lead."""
    events: Connection

    @classmethod
    def to_server_of(cls, connection: Connection, leadership: Leadership = ALWAYS_LEADER) -> Connections:
        """Return new connections to the server of `connection`; without leadership, their calls do not write."""
        may_write = None if leadership is ALWAYS_LEADER else leadership.holds
        return cls(connection.new_connection(may_write=may_write), connection.new_connection())

    async def close(self) -> None:
        """Close both connections."""
        await self.calls.close()
        await self.events.close()


def _ignore_kinds(_: Iterable[ResourceKind]) -> None:
    """Do nothing: no controller depends on the kinds that plugins watch."""


class SchedulerOptions(msgspec.Struct, frozen=True):
    """Options of a scheduler that are not part of its configuration."""

    max_in_unschedulable: float = 300.0
    """Seconds after which a pod that has been unschedulable is retried without an event."""
    on_kinds_changed: Callable[[Iterable[ResourceKind]], None] = _ignore_kinds
    """Receives the kinds that plugins watch when scheduling starts and whenever they change, and none once it stops."""
    recording: RecordingWriter | None = None
    """Records all inputs and decisions; None records nothing."""


_DEFAULT_OPTIONS = SchedulerOptions()


class Scheduler:
    """Scheduler for one API server. `run` lasts until it is cancelled."""

    def __init__(
        self,
        config: LoadedConfig,
        connections: Connections,
        clock: Clock,
        metrics: Metrics,
        leadership: Leadership = ALWAYS_LEADER,
        options: SchedulerOptions = _DEFAULT_OPTIONS,
    ) -> None:
        """ConfigError if a plugin cannot be constructed, or an extender's TLS settings are invalid."""
        self._leadership = leadership
        self._delay_cache = config.configuration.delay_cache_until_active
        self._clock = clock
        self.metrics = metrics
        self._connection = connections.calls
        instrument = MetricsInstrument(metrics, clock.now)
        self._extenders = ExtenderRegistry(config.configuration, clock)
        settings = _settings(config, options.max_in_unschedulable, self._extenders.known, clock)
        build = partial(_build_profiles, config, self._extenders)
        self.machine = (
            Machine(build, instrument, settings)
            if options.recording is None
            else RecordedMachine(options.recording, config, build, instrument, settings)
        )
        self._limit = ConcurrencyLimit(qps=config.configuration.client_connection.qps)
        make_executor = partial(
            Executor,
            _api_clients(connections, clock, metrics),
            clock,
            self._limit,
            instrument=instrument,
            call_extenders=self._extenders.call_extenders,
            binding_timeout=binding_timeout(config),
        )
        if leadership is not ALWAYS_LEADER:
            self.machine.hold_reports()
        self.loop = Loop(self.machine, make_executor, clock, instrument.decided)
        self.executor = self.loop.executor
        register_gauges(metrics, self.machine.context, self.executor, config.gates)
        if (recording := options.recording) is not None:
            metrics.recording.set_function(lambda: {(): float(recording.is_active)})
            metrics.recorded_bytes.set_function(lambda: {(): float(recording.bytes)})
        self._refusals = Refusals(metrics.count_decode_failure)
        self._handlers = ChangeHandlers(self.loop, clock, self._refusals, self._extenders.raw_objects)
        self._rng = random.Random()
        profiles = self.machine.context.profiles.values()
        self.kinds = sorted({kind for p in profiles for kind in p.watches}, key=lambda k: (k.group, k.plural))
        """Resource kinds that plugins read, in addition to pods and nodes."""
        self._succeeded = {key for p in profiles for key in p.succeeded}
        """Label keys of the succeeded pods that are watched; "" for all of them."""
        self.reflectors = self._reflectors()
        metrics.decode_failures.start_at_zero(lambda: ((each.kind.plural,) for each in self.reflectors))
        self._watches: _Running | None = None
        self._started = config
        self.config = config
        """The configuration in use."""
        self._on_kinds_changed = options.on_kinds_changed
        self._scheduling = False
        self.stopping = False
        """True while no new attempts are made and only running work is finished."""

    @property
    def names(self) -> tuple[str, ...]:
        """Scheduler names of its profiles."""
        return tuple(self.machine.context.profiles)

    @property
    def leads(self) -> bool:
        """Return True if this process is the leader."""
        return self._leadership.holds()

    @property
    def unsynced(self) -> str:
        """Resources that have not been listed yet; "" if none."""
        return ", ".join(r.name for r in self.reflectors if not r.synced.is_set())

    @property
    def unwatched(self) -> str:
        """Listed resources that have been unwatched for too long, with the reasons; "" if none."""
        now, longest = self._clock.now(), self._connection.deadlines.unwatched
        found = [r for r in self.reflectors if r.synced.is_set() and r.seconds_since_watch(now) > longest]
        return ", ".join(f"{r.name} for {r.seconds_since_watch(now):.0f} s ({r.problem or 'no answer'})" for r in found)

    async def run(self) -> None:
        """Watch the cluster; schedule once all is listed and leadership is held. Stops gracefully when cancelled.

        With delayCacheUntilActive nothing is listed before. LeaseLost if leadership is lost.
        """
        if self._delay_cache:
            await self._leadership.lead(partial(self._follow, ALWAYS_LEADER.lead))
        else:
            await self._follow(self._leadership.lead)

    async def _follow(self, lead: Callable[[Work], Awaitable[None]]) -> None:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._extenders.close)
            watches = await stack.enter_async_context(_Running([r.run() for r in self.reflectors]))
            self._watches = watches
            work = await stack.enter_async_context(_Running([self.executor.run()]))
            # Connections are opened while the lists are read, so that the first bindings need not wait for them, and
            # also after short lists: uvloop logs an error for each one that is cancelled during the TLS handshake.
            await stack.enter_async_context(_Running([self._warm()]))
            with gc_tuning.collection_paused():
                await self._sync(watches)
                stack.enter_context(gc_tuning.GcTuning())
            try:
                await work.or_failure(watches.or_failure(lead(self._schedule)))
            finally:
                # Events only report what was done: the next leader need not wait for them.
                if not self._leadership.lost:
                    await self.executor.flush(EVENT_FLUSH_TIMEOUT)

    async def _schedule(self) -> None:
        self._scheduling = True
        self._publish_kinds()
        for command in self.machine.release_reports():
            self.executor.execute(command)
        try:
            await self.loop.run()
        finally:
            self.stopping, self._scheduling = True, False
            self._on_kinds_changed(())
            self._extenders.stop()
            if not self._leadership.lost:
                await self.executor.drain(GRACE)

    async def reconfigure(self, config: LoadedConfig) -> tuple[str, ...]:
        """Use another configuration from the next attempt on; return its fields that need a restart.

        ConfigError, with nothing changed, if it is invalid.
        """
        context, settings = self.machine.context, config.configuration
        if isinstance(self.machine, RecordedMachine):
            self.machine.record_rebuild(config)
        rebuilt = rebuild_profiles(self._started, config, context.active_profiles, context.handle)
        await self._watch_more(
            {kind for p in rebuilt.profiles for kind in p.watches} - {*self.kinds},
            rebuilt.succeeded - self._succeeded,
        )
        watches = self.reflectors if self._watches is not None else ()
        await self._extenders.change(settings, watches, self._binding_profiles)
        backoffs = settings.pod_initial_backoff_seconds, settings.pod_max_backoff_seconds
        profiles = self._extenders.with_binders(rebuilt.profiles, context.handle)
        self.loop.handle_event(Reconfigured(self._clock.now(), profiles, *backoffs, self._extenders.known))
        self.config = rebuilt.config
        self.executor.bindings.timeout = binding_timeout(self.config)
        self._publish_kinds()
        return rebuilt.restart

    def _publish_kinds(self) -> None:
        if self._scheduling:
            self._on_kinds_changed(
                {kind for profile in self.machine.context.profiles.values() for kind in profile.watches}
            )

    def _binding_profiles(self) -> Iterable[Profile]:
        """Profiles of the pods that are assumed or being bound."""
        return (each.profile for each in self.machine.context.assumed.values())

    async def _watch_more(self, kinds: set[ResourceKind], succeeded: set[str]) -> None:
        """List and watch additional kinds and succeeded pods; returns when all are listed."""
        self.machine.context.handle.pods.count_succeeded(succeeded)
        more: list[Reflector[Any]] = [self._succeeded_reflector(key) for key in sorted(succeeded)]
        more += [self._reflector(_Source(Watched(kind), dict[str, Any], self._handlers.of(kind))) for kind in kinds]
        if self._watches is not None and more:
            tasks = [self._watches.start(reflector.run()) for reflector in more]
            try:
                async with asyncio.timeout(LISTING):
                    await asyncio.gather(*(reflector.synced.wait() for reflector in more))
            except TimeoutError:
                self._watches.stop(tasks)
                missing = ", ".join(f"{r.name} ({r.problem or 'no answer'})" for r in more if not r.synced.is_set())
                raise ConfigError([Problem("profiles", f"plugins watch what cannot be listed: {missing}")]) from None
        self.kinds += kinds
        self._succeeded |= succeeded
        self.reflectors += more

    async def _sync(self, watches: _Running) -> None:
        started = self._clock.now()
        await watches.or_failure(asyncio.gather(*(r.synced.wait() for r in self.reflectors)))
        for key in DEFAULT_TOPOLOGY_KEYS:
            self.machine.build_topology_column(key)
            await asyncio.sleep(0)  # a column takes 30 ms with 50,000 nodes
        log.info("Caches synced", seconds=round(self._clock.now() - started, 3), **self._sizes())

    async def _warm(self) -> None:
        """Open as many connections as bindings are expected in flight at first, given the server's latency."""
        self._limit.expect(await self._connection.latency())
        await self._connection.warm(int(self._limit.limit(waiting=0, nodes=0)))

    def _sizes(self) -> dict[str, int]:
        sizes: Counter[str] = Counter()
        for reflector in self.reflectors:
            sizes[reflector.kind.plural] += len(reflector)
        return sizes

    def _reflectors(self) -> list[Reflector[Any]]:
        pods = _Source(Watched(PODS, LIVE_PODS), PodObject, self._handlers.pod)
        nodes = _Source(Watched(NODES), NodeObject, self._handlers.node)
        others = [_Source(Watched(kind), dict[str, Any], self._handlers.of(kind)) for kind in self.kinds]
        succeeded = [self._succeeded_reflector(key) for key in sorted(self._succeeded)]
        return [*(self._reflector(source) for source in (nodes, *others)), *succeeded, self._reflector(pods)]

    def _succeeded_reflector(self, label: str) -> Reflector[Any]:
        """Return a reflector of the succeeded pods with a label key, of all for ""."""
        watched = Watched(PODS, SUCCEEDED_PODS, label_selector=label)
        decoder: ObjectDecoder[Any] = ObjectDecoder(PODS.plural, PodObject, self._refusals)
        return Reflector(self._connection, watched, decoder, self._handlers.succeeded_pod, self._clock, self._rng)

    def _reflector(self, source: _Source) -> Reflector[Any]:
        kind = source.watched.kind
        decoder: ObjectDecoder[Any] = ObjectDecoder(kind.plural, source.type, self._refusals)
        if (cache := self._extenders.raw_objects.of(kind)) is not None:
            cache.fill_from(decoder)
        return Reflector(self._connection, source.watched, decoder, source.emit, self._clock, self._rng)


class _Source(msgspec.Struct, frozen=True):
    """A resource to watch, and the handler of its changes."""

    watched: Watched
    type: Any
    emit: Callable[[Change[Any]], None]


class _Running(msgspec.Struct):
    """Tasks that run inside the `async with` block; the failure of one ends the wait in `or_failure`."""

    coroutines: list[Any]
    tasks: list[asyncio.Task[None]] = msgspec.field(default_factory=list)

    async def __aenter__(self) -> _Running:
        self.tasks = [asyncio.create_task(c) for c in self.coroutines]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start another task; its failure is only logged until the next `or_failure`."""
        task = asyncio.create_task(coroutine)
        task.add_done_callback(_log_failure)
        self.tasks.append(task)
        return task

    def stop(self, tasks: Iterable[asyncio.Task[None]]) -> None:
        """Cancel and forget tasks."""
        for task in tasks:
            task.cancel()
            self.tasks.remove(task)

    async def or_failure(self, awaitable: Any) -> None:
        """Wait for `awaitable`; if one of the tasks ends first, stop waiting and raise its exception."""
        waiting = asyncio.ensure_future(awaitable)
        try:
            done, _ = await asyncio.wait({waiting, *self.tasks}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)


def _log_failure(task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.crash("A reflector has ended", error)


def _settings(
    config: LoadedConfig, max_in_unschedulable: float, extenders: tuple[Extender, ...], clock: Clock
) -> Settings:
    return Settings(
        config.python.seed,
        config.configuration.pod_initial_backoff_seconds,
        config.configuration.pod_max_backoff_seconds,
        max_in_unschedulable,
        extenders=extenders,
        epoch=clock.wall() - clock.now(),
        preempts_for_resizes=config.preempts_for_resizes,
    )


def _build_profiles(config: LoadedConfig, extenders: ExtenderRegistry, handle: CoreHandle) -> tuple[Profile, ...]:
    return extenders.with_binders(build_profiles(config, handle), handle)


def _api_clients(connections: Connections, clock: Clock, metrics: Metrics) -> ApiClients:
    """Create the writers: bindings and statuses on one connection, Events on the other with lower priority."""
    in_flight = InFlightCounter()
    recorder = Recorder(connections.events, clock, in_flight, dropped=metrics.count_dropped_event)
    writer = KubeWriter(connections.calls, clock, recorder.record, metrics.observe)
    return ApiClients(writer, StatusWriter(connections.calls, clock), recorder, in_flight)
