"""Loaded configuration as YAML without implicit defaults: plugins of each extension point in order, with args.

The output loads again to equal profiles, so it can be used as the start of a file.
"""

from __future__ import annotations

from typing import Any

import yaml
from msgspec.structs import replace

from pyscheduler.config.encode import encode
from pyscheduler.config.expand import Enabled, ProfileSpec
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.config.types import KUBE_API_VERSION, KUBE_KIND, PY_API_VERSION, PY_KIND, PluginImport


def show(loaded: LoadedConfig) -> str:
    """Return the YAML of both documents."""
    return yaml.safe_dump_all(documents(loaded), sort_keys=False, allow_unicode=True)


def documents(loaded: LoadedConfig) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return both documents, kube-scheduler's and ours."""
    kube = {"apiVersion": KUBE_API_VERSION, "kind": KUBE_KIND, **encode(loaded.configuration)}
    kube["profiles"] = [_profile(spec) for spec in loaded.profiles]
    imports = tuple(PluginImport(reference, name) for name, reference in loaded.imported.items())
    ours = {"apiVersion": PY_API_VERSION, "kind": PY_KIND, **encode(replace(loaded.python, plugins=imports))}
    return kube, ours


def _profile(spec: ProfileSpec) -> dict[str, Any]:
    # All plugins are listed explicitly, so the defaults must be disabled.
    plugins: dict[str, Any] = {"multiPoint": {"disabled": [{"name": "*"}]}}
    for point, enabled in spec.points.items():
        if enabled:
            plugins[point] = {"enabled": [_plugin(e) for e in enabled]}
    configured = ((name, encode(args)) for name, args in spec.args.items())
    share = spec.percentage_of_nodes_to_score
    return {
        "schedulerName": spec.scheduler_name,
        **({} if share is None else {"percentageOfNodesToScore": share}),
        "plugins": plugins,
        "pluginConfig": [{"name": name, "args": args} for name, args in configured if args],
    }


def _plugin(enabled: Enabled) -> dict[str, Any]:
    return {"name": enabled.name, "weight": enabled.weight} if enabled.weight else {"name": enabled.name}
