"""The extenders of the configuration that is followed now: none, some, and others after a reload.

It stands between the scheduler and `ExtenderClients`, whose HTTP client is slow to import: where there are none, nothing of
that is loaded. Extenders that are left out go on binding the pods whose binding they have begun, and are closed then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyscheduler.api import Handle
from pyscheduler.config.problems import ConfigError, Problem
from pyscheduler.config.types import KubeSchedulerConfiguration
from pyscheduler.core.commands import CallExtenders
from pyscheduler.core.events import Event
from pyscheduler.core.extender import Extender
from pyscheduler.core.framework.profile import Profile
from pyscheduler.shell.clock import Clock
from pyscheduler.shell.extenders.raw_objects import CacheScope, RawObjectCache, RawObjectCaches, required_scopes
from pyscheduler.shell.kube.reflector import Reflector

if TYPE_CHECKING:
    from pyscheduler.shell.extenders.extender_client import ExtenderClients

LISTING: Final = 30.0
"""Seconds that listing what extenders are to be sent may take."""
RETIRING: Final = 1.0
"""Seconds between two looks whether extenders that are left out still have pods to bind."""


class ExtenderRegistry:
    """Whoever is to be asked."""

    def __init__(self, configuration: KubeSchedulerConfiguration, clock: Clock) -> None:
        """ConfigError if one of them cannot be reached as it is configured."""
        self.kept = RawObjectCaches(RawObjectCache(), RawObjectCache())
        """What they may have to be sent; to be filled by whoever watches pods and nodes."""
        self._clock = clock
        self._configured = configuration.extenders
        self._now = self._made(configuration)
        self._retired: dict[ExtenderClients, asyncio.Task[None]] = {}
        for kept, keep in self.kept.by(required_scopes(configuration.extenders)):
            kept.keep = keep

    @property
    def known(self) -> tuple[Extender, ...]:
        """The extenders as the core knows them."""
        return self._now.known if self._now else ()

    def with_binders(self, profiles: Sequence[Profile], handle: Handle) -> tuple[Profile, ...]:
        """The profiles, with the extenders that bind before their Bind plugins."""
        return self._now.with_binders(profiles, handle) if self._now else tuple(profiles)

    def call(self, command: CallExtenders, emit: Callable[[Event], None]) -> None:
        """Make the calls, and emit what they return."""
        assert self._now is not None, f"no extenders are configured, but one is called for {command.pod}"
        self._now.call(command, emit)

    async def change(
        self,
        configuration: KubeSchedulerConfiguration,
        watches: Iterable[Reflector[Any]],
        active_profiles: Callable[[], Iterable[Profile]],
    ) -> None:
        """Have the extenders of another configuration asked from now on. ConfigError, with nothing changed, if not.

        What they need and nobody has kept so far is read by those of `watches` that see it, from the beginning.
        """
        if configuration.extenders == self._configured:
            return
        coming, needs = self._made(configuration), required_scopes(configuration.extenders)
        await self._read(needs, watches)
        before, self._now, self._configured = self._now, coming, configuration.extenders
        for kept, keep in self.kept.by(needs):
            kept.narrow(keep)
        if before is not None:
            before.stop()
            self._retired[before] = asyncio.create_task(self._retire(before, active_profiles))

    def stop(self) -> None:
        """Ask nothing more; pods that extenders were asked about stay as they are."""
        if self._now is not None:
            self._now.stop()

    async def close(self) -> None:
        """Stop, and drop all connections."""
        for task in self._retired.values():
            task.cancel()
        for extenders in (*self._retired, *((self._now,) if self._now else ())):
            await extenders.close()

    def _made(self, configuration: KubeSchedulerConfiguration) -> ExtenderClients | None:
        if not configuration.extenders:
            return None
        from pyscheduler.shell.extenders.extender_client import ExtenderClients

        return ExtenderClients(configuration, self._clock, self.kept)

    async def _read(self, needs: Sequence[CacheScope], watches: Iterable[Reflector[Any]]) -> None:
        before = [kept.keep for kept in self.kept]
        wanting = [kept for kept, keep in self.kept.by(needs) if keep > kept.keep]
        for kept, keep in self.kept.by(needs):
            kept.keep = max(kept.keep, keep)
        reading = [watch for watch in watches if self.kept.of(watch.kind) in wanting]
        try:
            async with asyncio.timeout(LISTING):
                await asyncio.gather(*(watch.list_again() for watch in reading))
        except TimeoutError:
            for kept, keep in self.kept.by(before):
                kept.narrow(keep)
            missing = ", ".join(f"{watch.name} ({watch.problem or 'no answer'})" for watch in reading)
            raise ConfigError([Problem("extenders", f"what they are to be sent cannot be listed: {missing}")]) from None

    async def _retire(self, extenders: ExtenderClients, active_profiles: Callable[[], Iterable[Profile]]) -> None:
        while any(extenders.bind_by(profile.plan) for profile in active_profiles()):
            await self._clock.sleep(RETIRING)
        await extenders.close()
        del self._retired[extenders]
