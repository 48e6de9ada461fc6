"""From a configuration to profiles that run: every plugin constructed with its args, once for each profile."""

from __future__ import annotations

import dataclasses
from typing import Any

from msgspec.structs import replace

from pyscheduler.api.handle import Handle
from pyscheduler.api.plugin import Plugin
from pyscheduler.config.expand import ProfileSpec
from pyscheduler.config.extenders import ignored_resources
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.config.problems import ConfigError, Problem
from pyscheduler.core.framework.profile import Profile, compile_profile
from pyscheduler.intree import NodeResourcesFit


def build_profiles(config: LoadedConfig, handle: Handle) -> tuple[Profile, ...]:
    """The profiles of a configuration. ConfigError, naming the plugin, if one cannot be constructed."""
    return tuple(_profile(spec, config, handle) for spec in config.profiles)


def _profile(spec: ProfileSpec, config: LoadedConfig, handle: Handle) -> Profile:
    instances = {name: _construct(name, spec, config, handle) for name in spec.plugins}
    points = {
        point: [(instances[enabled.name], enabled.weight) for enabled in enabled_here]
        for point, enabled_here in spec.points.items()
    }
    try:
        profile = compile_profile(spec.scheduler_name, points)
    except ValueError as error:
        raise ConfigError([Problem("profiles", str(error))]) from error
    return replace(profile, percentage_of_nodes_to_score=spec.percentage_of_nodes_to_score)


def _construct(name: str, spec: ProfileSpec, config: LoadedConfig, handle: Handle) -> Plugin:
    cls = config.registry[name].cls
    try:
        return cls(_args(name, spec, config), handle)
    except Exception as error:
        # A user's plugin may raise anything; its text is all that helps here, a traceback is not.
        problem = Problem("profiles", f'initializing plugin "{name}": {str(error) or type(error).__name__}')
        raise ConfigError([problem]) from error


def _args(name: str, spec: ProfileSpec, config: LoadedConfig) -> Any:
    """The args of a plugin, as its profile and the extenders would have them."""
    ignored = ignored_resources(config.configuration)
    if not ignored or config.registry[name].cls is not NodeResourcesFit:
        return spec.args[name]
    return dataclasses.replace(spec.args[name], ignored_resources=ignored)
