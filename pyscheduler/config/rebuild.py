"""From a changed configuration to profiles that take the place of those that run.

A plugin whose args are as before goes on as it is, with all that it remembers. What a scheduler that runs cannot take
up is left as it was, and told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from pyscheduler.api.handle import Handle
from pyscheduler.config.build import build_profiles
from pyscheduler.config.expand import ProfileSpec
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.core.framework.profile import Profile

_FIXED = {
    "clientConnection": "client_connection",
    "leaderElection": "leader_election",
    "delayCacheUntilActive": "delay_cache_until_active",
    "enableProfiling": "enable_profiling",
}
"""What is looked at once, when the scheduler starts: paths of the file, and the fields that hold it."""


class RebuiltProfiles(msgspec.Struct, frozen=True):
    """The profiles to go on with, in the order of the file; `restart` says what waits for a restart."""

    profiles: tuple[Profile, ...]
    restart: tuple[str, ...]


def rebuild_profiles(
    started: LoadedConfig, changed: LoadedConfig, running: Mapping[str, Profile], handle: Handle
) -> RebuiltProfiles:
    """The profiles of a changed configuration. `started` is what the process began with.

    `running` is what decides now, and what does no more but still has pods on their way: a profile that comes back
    finds its plugins again. ConfigError if a plugin cannot be constructed.
    """
    restart = [path for path, field in _FIXED.items() if _differs(field, started, changed)]
    if changed.python.seed != started.python.seed:
        restart.append("seed")
    specs = tuple(_keep_reserving_args(spec, running.get(spec.scheduler_name), restart) for spec in changed.profiles)
    profiles = build_profiles(replace(changed, profiles=specs), handle, running)
    return RebuiltProfiles(profiles, tuple(restart))


def _differs(field: str, one: LoadedConfig, other: LoadedConfig) -> bool:
    return bool(getattr(one.configuration, field) != getattr(other.configuration, field))


def _keep_reserving_args(spec: ProfileSpec, running: Profile | None, restart: list[str]) -> ProfileSpec:
    """The profile with the old args of plugins that hold reservations, which a new instance would not know of."""
    if running is None:
        return spec
    args: dict[str, Any] = dict(spec.args)
    for plugin in running.reserve:
        if plugin.name in args and args[plugin.name] != plugin.args:
            restart.append(f'args of {plugin.name} in profile "{spec.scheduler_name}"')
            args[plugin.name] = plugin.args
    return replace(spec, args=args)
