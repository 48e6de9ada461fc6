"""Execute the core's commands: bindings on a bounded number of connections, everything else with lower priority.

`Bindings` binds pods, `Evictor` evicts victims, `Recorder` writes Events, `Patcher` writes pod statuses,
`PodGroupConditionWriter` conditions of PodGroups, `PluginApiCaller` makes the API calls of plugins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from pyscheduler import logs
from pyscheduler.api.handle import ApiWriter
from pyscheduler.clock import Clock
from pyscheduler.core.commands import (
    Bind,
    CallApi,
    CallExtenders,
    CancelBinding,
    Command,
    Evict,
    GetPod,
    PatchPodGroup,
    PatchStatus,
    Record,
)
from pyscheduler.core.events import Event
from pyscheduler.core.instrument import Instrument
from pyscheduler.shell.api_calls import PluginApiCaller
from pyscheduler.shell.binding.bindings import BindingPorts, Bindings
from pyscheduler.shell.binding.concurrency import ConcurrencyLimit, InFlightCounter
from pyscheduler.shell.evictor import Evictor
from pyscheduler.shell.lookup import PodLookup
from pyscheduler.shell.patcher import Patcher
from pyscheduler.shell.pod_group_conditions import PodGroupConditionWriter
from pyscheduler.shell.writers.recorder import Recorder
from pyscheduler.shell.writers.status import StatusWriter

log = logs.get("executor")
EventHandler = Callable[[Event], None]
ExtenderCaller = Callable[[CallExtenders, EventHandler], None]
"""Makes the calls of a command, and passes what came of them to the handler."""


class ApiClients(Struct, frozen=True):
    """The writers to the API server, by what they write."""

    api: ApiWriter
    """Bindings, and the calls of plugins."""
    status: StatusWriter
    """Pod conditions and evictions."""
    recorder: Recorder
    """Kubernetes Events."""
    in_flight: InFlightCounter
    """Counts bindings and evictions; whatever is less urgent yields to them."""


class Executor:
    """Execute commands without blocking the caller; results are passed to `emit`."""

    def __init__(
        self,
        clients: ApiClients,
        clock: Clock,
        limit: ConcurrencyLimit,
        emit: EventHandler,
        *,
        instrument: Instrument,
        call_extenders: ExtenderCaller,
        binding_timeout: float,
    ) -> None:
        in_flight = clients.in_flight
        self._recorder = clients.recorder
        self._clock = clock
        self._patcher = Patcher(clients.status, in_flight, clock)
        ports = BindingPorts(emit, clients.recorder.record, self._patcher, instrument)
        self.bindings = Bindings(clients.api, in_flight, clock, limit, ports, binding_timeout)
        self._lookup = PodLookup(clients.api, clock, emit)
        self._pod_groups = PodGroupConditionWriter(clients.api, clock)
        self._api_calls = PluginApiCaller(clients.api)
        self._evictor = Evictor(clients.status, clients.recorder, in_flight, clock, emit, instrument)
        self.handlers: Mapping[type[Command], Callable[[Any], None]] = {
            Bind: self.bindings.begin,
            Record: clients.recorder.record,
            PatchStatus: self._patcher.add,
            PatchPodGroup: self._pod_groups.add,
            CallApi: self._api_calls.add,
            CallExtenders: lambda command: call_extenders(command, emit),
            GetPod: self._lookup.add,
            CancelBinding: lambda command: self.bindings.cancel(command.uid),
            Evict: self._evict,
        }
        """Function that starts a command, by its type."""

    @property
    def unfinished(self) -> int:
        """Number of binding cycles that have not ended."""
        return self.bindings.unfinished

    def execute(self, command: Command) -> None:
        """Start a command; its result, if it has one, is emitted as an event."""
        self.handlers[type(command)](command)

    def _evict(self, command: Evict) -> None:
        if not self.bindings.preempt(command):
            self._evictor.add(command)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.bindings.run())
            group.create_task(self._patcher.run())
            group.create_task(self._evictor.run())
            group.create_task(self._lookup.run())
            group.create_task(self._pod_groups.run())
            group.create_task(self._api_calls.run())
            group.create_task(self._recorder.run())

    async def drain(self, timeout: float) -> None:
        """Wait until no binding is in flight and conditions are written, at most `timeout` seconds."""
        deadline = self._clock.now() + timeout
        while (self.unfinished or self._patcher.left) and self._clock.now() < deadline:
            await self._clock.sleep(0.05)
        if self.unfinished or self._patcher.left:
            log.warning("Stopped with unfinished work", bindings=self.unfinished, conditions=self._patcher.left)

    async def flush(self, timeout: float) -> None:
        """Wait until Events are written, at most `timeout` seconds; log what remains."""
        await self._recorder.flush(timeout)
