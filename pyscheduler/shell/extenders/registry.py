"""Registry of the extenders in the current configuration, which a reload may change.

`ExtenderClients` is imported only if extenders are configured, because its HTTP client is slow to import. Extenders
that a reload removed finish the bindings in flight and are closed then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyscheduler.api import Handle
from pyscheduler.clock import Clock
from pyscheduler.config.problems import ConfigError, Problem
from pyscheduler.config.types import KubeSchedulerConfiguration
from pyscheduler.core.commands import CallExtenders
from pyscheduler.core.events import Event
from pyscheduler.core.extenders.extender import Extender
from pyscheduler.core.framework.profile import Profile
from pyscheduler.kube.reflector import Reflector
from pyscheduler.shell.extenders.raw_objects import CacheScope, RawObjectCache, RawObjectCaches, required_scopes

if TYPE_CHECKING:
    from pyscheduler.shell.extenders.extender_client import ExtenderClients

LISTING: Final = 30.0
"""Seconds that listing the objects for extenders may take."""
RETIRING: Final = 1.0
"""Seconds between two checks for bindings in flight of removed extenders."""


class ExtenderRegistry:
    """The configured extenders."""

    def __init__(self, configuration: KubeSchedulerConfiguration, clock: Clock) -> None:
        """ConfigError if the TLS settings of one are invalid."""
        self.raw_objects = RawObjectCaches(*map(RawObjectCache, required_scopes(configuration.extenders)))
        """Raw objects for the requests; the reflectors of pods and nodes fill it."""
        self._clock = clock
        self._configured = configuration.extenders
        self._now = self._create_clients(configuration)
        self._retired: dict[ExtenderClients, asyncio.Task[None]] = {}

    @property
    def known(self) -> tuple[Extender, ...]:
        """The extenders in the core's form."""
        return self._now.known if self._now else ()

    def with_binders(self, profiles: Sequence[Profile], handle: Handle) -> tuple[Profile, ...]:
        """Return the profiles with the binding extenders placed before their Bind plugins."""
        return self._now.with_binders(profiles, handle) if self._now else tuple(profiles)

    def call_extenders(self, command: CallExtenders, emit: Callable[[Event], None]) -> None:
        """Start the calls of a command; the results are emitted."""
        assert self._now is not None, f"no extenders are configured to call for {command.pod}"
        self._now.call_extenders(command, emit)

    async def change(
        self,
        configuration: KubeSchedulerConfiguration,
        watches: Iterable[Reflector[Any]],
        binding_profiles: Callable[[], Iterable[Profile]],
    ) -> None:
        """Switch to the extenders of another configuration. ConfigError, with nothing changed, if that fails.

        `binding_profiles` returns the profiles of the pods that are being bound.

        Objects that they need and that are not stored yet are listed again by the matching reflectors of `watches`.
        """
        if configuration.extenders == self._configured:
            return
        replacement, needs = self._create_clients(configuration), required_scopes(configuration.extenders)
        await self._read(needs, watches)
        before, self._now, self._configured = self._now, replacement, configuration.extenders
        for cache, scope in self.raw_objects.by(needs):
            cache.narrow(scope)
        if before is not None:
            before.stop()
            self._retired[before] = asyncio.create_task(self._retire(before, binding_profiles))

    def stop(self) -> None:
        """Cancel all calls; the pods that they are for stay as they are."""
        if self._now is not None:
            self._now.stop()

    async def close(self) -> None:
        """Cancel all calls and close all connections."""
        for task in self._retired.values():
            task.cancel()
        for extenders in (*self._retired, *((self._now,) if self._now else ())):
            await extenders.close()

    def _create_clients(self, configuration: KubeSchedulerConfiguration) -> ExtenderClients | None:
        if not configuration.extenders:
            return None
        from pyscheduler.shell.extenders.extender_client import ExtenderClients

        return ExtenderClients(configuration, self._clock, self.raw_objects)

    async def _read(self, needs: Sequence[CacheScope], watches: Iterable[Reflector[Any]]) -> None:
        before = [cache.scope for cache in self.raw_objects]
        incomplete = [cache for cache, scope in self.raw_objects.by(needs) if scope > cache.scope]
        for cache, scope in self.raw_objects.by(needs):
            cache.scope = max(cache.scope, scope)
        listing = [watch for watch in watches if self.raw_objects.of(watch.kind) in incomplete]
        try:
            async with asyncio.timeout(LISTING):
                await asyncio.gather(*(watch.list_again() for watch in listing))
        except TimeoutError:
            for cache, scope in self.raw_objects.by(before):
                cache.narrow(scope)
            missing = ", ".join(f"{watch.name} ({watch.problem or 'no answer'})" for watch in listing)
            raise ConfigError([Problem("extenders", f"cannot list objects for requests: {missing}")]) from None

    async def _retire(self, extenders: ExtenderClients, binding_profiles: Callable[[], Iterable[Profile]]) -> None:
        while any(extenders.bind_by(profile.plan) for profile in binding_profiles()):
            await self._clock.sleep(RETIRING)
        await extenders.close()
        del self._retired[extenders]
