"""Rebuild of profiles after a configuration reload.

Plugins with unchanged args are kept with their state. Settings that a running scheduler cannot change stay as they are
and are listed for a restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from pyscheduler.config.build import build_profiles
from pyscheduler.config.expand import ProfileSpec
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.core.framework.handle import CoreHandle
from pyscheduler.core.framework.profile import Profile

_FIXED = {
    "clientConnection": "client_connection",
    "leaderElection": "leader_election",
    "delayCacheUntilActive": "delay_cache_until_active",
    "enableProfiling": "enable_profiling",
}
"""Settings that are read at startup only: YAML paths and their field names."""


class RebuiltProfiles(msgspec.Struct, frozen=True):
    """Profiles after a reload, in the order of the file, and the settings that need a restart."""

    profiles: tuple[Profile, ...]
    restart: tuple[str, ...]
    config: LoadedConfig
    """The changed configuration with the values in use of what needs a restart."""

    @property
    def succeeded(self) -> set[str]:
        """Keys of the succeeded pods that the plugins count."""
        return {key for profile in self.profiles for key in profile.succeeded}


def rebuild_profiles(
    started: LoadedConfig, changed: LoadedConfig, running: Mapping[str, Profile], handle: CoreHandle
) -> RebuiltProfiles:
    """Return the profiles of a changed configuration. `started` is the configuration at startup.

    `running` holds the active profiles and removed ones with pods in binding: a profile that comes back reuses its
    plugins. ConfigError if a plugin cannot be constructed.
    """
    restart = [path for path, field in _FIXED.items() if _differs(field, started, changed)]
    if changed.python.seed != started.python.seed:
        restart.append("seed")
    specs = tuple(_keep_reserving_args(spec, running.get(spec.scheduler_name), restart) for spec in changed.profiles)
    fixed = {field: getattr(started.configuration, field) for field in _FIXED.values()}
    used = replace(
        changed,
        configuration=replace(changed.configuration, **fixed),
        python=replace(changed.python, seed=started.python.seed),
        profiles=specs,
    )
    return RebuiltProfiles(build_profiles(used, handle, running), tuple(restart), used)


def _differs(field: str, one: LoadedConfig, other: LoadedConfig) -> bool:
    return bool(getattr(one.configuration, field) != getattr(other.configuration, field))


def _keep_reserving_args(spec: ProfileSpec, running: Profile | None, restart: list[str]) -> ProfileSpec:
    """Return the profile with unchanged args for Reserve plugins: a new instance would lose their reservations."""
    if running is None:
        return spec
    args: dict[str, Any] = dict(spec.args)
    for plugin in running.reserve:
        if plugin.name in args and args[plugin.name] != plugin.args:
            restart.append(f'args of {plugin.name} in profile "{spec.scheduler_name}"')
            args[plugin.name] = plugin.args
    return replace(spec, args=args)
