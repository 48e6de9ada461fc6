"""Construction of profiles: every plugin is instantiated with its args, once per profile."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec.structs import replace

from pyscheduler.api.plugin import Plugin
from pyscheduler.config.expand import ProfileSpec
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.config.problems import ConfigError, Problem
from pyscheduler.core.framework.handle import CoreHandle
from pyscheduler.core.framework.plugin_failure import PluginFailed, code_line, describe, is_external
from pyscheduler.core.framework.profile import Profile, compile_profile


def build_profiles(
    config: LoadedConfig, handle: CoreHandle, running: Mapping[str, Profile] = MappingProxyType({})
) -> tuple[Profile, ...]:
    """Return the compiled profiles of a configuration. ConfigError lists all plugins that cannot be constructed.

    Plugins of `running` profiles are reused if class and args are unchanged.
    """
    problems: list[Problem] = []
    instances = [_construct(i, config, handle, running, problems) for i in range(len(config.profiles))]
    if problems:
        raise ConfigError(problems)
    specs, cached = config.profiles, config.python.result_cache
    profiles = tuple(_profile(spec, plugins, cached) for spec, plugins in zip(specs, instances, strict=True))
    for i, profile in enumerate(profiles):
        if profile.quota is not None and config.configuration.extenders:
            raise ConfigError([Problem("extenders", _extenders_beside(profile.quota.name, i))])
    return profiles


def _extenders_beside(quota: str, profile: int) -> str:
    return (
        f"cannot be combined with the quota plugin {quota} of profiles[{profile}], which schedules each pod as a pod "
        f"group; extenders are not called for pod groups. Remove the extenders or disable {quota}, or run a second "
        "scheduler with another schedulerName for the pods that need extenders"
    )


def _profile(spec: ProfileSpec, instances: Mapping[str, Plugin], caches_results: bool) -> Profile:
    points = {
        point: [(instances[enabled.name], enabled.weight) for enabled in enabled_plugins]
        for point, enabled_plugins in spec.points.items()
    }
    try:
        profile = compile_profile(spec.scheduler_name, points)
        _ = profile.events_to_register  # evaluated here, so that errors in plugins are reported at startup
    except (ValueError, PluginFailed) as error:
        raise ConfigError([Problem("profiles", str(error))]) from error
    share = spec.percentage_of_nodes_to_score
    return replace(profile, percentage_of_nodes_to_score=share, caches_results=caches_results)


def _construct(
    i: int, config: LoadedConfig, handle: CoreHandle, running: Mapping[str, Profile], problems: list[Problem]
) -> dict[str, Plugin]:
    """Return the plugins of one profile by name; failures are appended to `problems`."""
    spec = config.profiles[i]
    current = running.get(spec.scheduler_name)
    instances: dict[str, Plugin] = (
        {p.name: p for p in current.plugins if _can_be_reused(p, spec, config)} if current else {}
    )
    for name in spec.plugins:
        if name in instances:
            continue
        cls = config.registry[name].cls
        handle.objects.watch(cls.watches)
        try:
            instances[name] = cls(spec.args[name], handle)
        except BaseException as error:
            if is_external(error):
                raise
            # A plugin may raise anything; the message is reported without a traceback.
            where = code_line(error)
            at = f" ({where})" if where else ""
            problems.append(Problem(f"profiles[{i}]", f'initializing plugin "{name}": {describe(error)}{at}'))
    return instances


def _can_be_reused(plugin: Plugin, spec: ProfileSpec, config: LoadedConfig) -> bool:
    """Return True if a running plugin has the class and args that the profile requires."""
    wanted = plugin.name in spec.args and type(plugin) is config.registry[plugin.name].cls
    return wanted and bool(spec.args[plugin.name] == plugin.args)
