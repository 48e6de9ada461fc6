"""From a configuration to profiles that run: every plugin constructed with its args, once for each profile."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec.structs import replace

from pyscheduler.api.handle import Handle
from pyscheduler.api.plugin import Plugin
from pyscheduler.config.expand import ProfileSpec
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.config.problems import ConfigError, Problem
from pyscheduler.core.framework.plugin_failure import PluginFailed, code_line, describe, is_external
from pyscheduler.core.framework.profile import Profile, compile_profile


def build_profiles(
    config: LoadedConfig, handle: Handle, running: Mapping[str, Profile] = MappingProxyType({})
) -> tuple[Profile, ...]:
    """The profiles of a configuration. ConfigError, naming each of them, if plugins cannot be constructed.

    Plugins of profiles that are `running` are taken over where class and args are the same.
    """
    problems: list[Problem] = []
    instances = [_constructed(i, config, handle, running, problems) for i in range(len(config.profiles))]
    if problems:
        raise ConfigError(problems)
    return tuple(_profile(spec, plugins) for spec, plugins in zip(config.profiles, instances, strict=True))


def _profile(spec: ProfileSpec, instances: Mapping[str, Plugin]) -> Profile:
    points = {
        point: [(instances[enabled.name], enabled.weight) for enabled in enabled_here]
        for point, enabled_here in spec.points.items()
    }
    try:
        profile = compile_profile(spec.scheduler_name, points)
        _ = profile.events_to_register  # what a plugin raises there is found now, not when the first event comes
    except (ValueError, PluginFailed) as error:
        raise ConfigError([Problem("profiles", str(error))]) from error
    return replace(profile, percentage_of_nodes_to_score=spec.percentage_of_nodes_to_score)


def _constructed(
    i: int, config: LoadedConfig, handle: Handle, running: Mapping[str, Profile], problems: list[Problem]
) -> dict[str, Plugin]:
    """The plugins of one profile; what could not be constructed is left out and told in `problems`."""
    spec = config.profiles[i]
    before = running.get(spec.scheduler_name)
    instances: dict[str, Plugin] = (
        {p.name: p for p in before.plugins if _can_be_reused(p, spec, config)} if before else {}
    )
    for name in spec.plugins:
        if name in instances:
            continue
        try:
            instances[name] = config.registry[name].cls(spec.args[name], handle)
        except BaseException as error:
            if is_external(error):
                raise
            # A user's plugin may raise anything; its text is all that helps here, a traceback is not.
            where = code_line(error)
            at = f" ({where})" if where else ""
            problems.append(Problem(f"profiles[{i}]", f'initializing plugin "{name}": {describe(error)}{at}'))
    return instances


def _can_be_reused(plugin: Plugin, spec: ProfileSpec, config: LoadedConfig) -> bool:
    """Whether a plugin that runs is what the profile asks for."""
    wanted = plugin.name in spec.args and type(plugin) is config.registry[plugin.name].cls
    return wanted and bool(spec.args[plugin.name] == plugin.args)
