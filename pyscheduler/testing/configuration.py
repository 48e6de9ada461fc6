"""Configuration of a harness."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pyscheduler.config.load import default, load, loads
from pyscheduler.config.loaded import LoadedConfig

_FILE_SUFFIXES: Final = (".yaml", ".yml", ".json")


def loaded_config(config: str | Path | LoadedConfig | None) -> LoadedConfig:
    """Return a configuration that is loaded, YAML text, or a path (.yaml, .yml, .json); by default the default one."""
    if config is None:
        return default()
    if isinstance(config, LoadedConfig):
        return config
    if not isinstance(config, str | Path):
        raise TypeError(f"a configuration is YAML text or the path of a file, not {type(config).__name__}")
    if isinstance(config, Path) or config.endswith(_FILE_SUFFIXES):
        return load(config)
    return loads(config)
