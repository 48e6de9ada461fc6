"""Reader of volcano-scheduler.conf, the configuration of Volcano's scheduler, also inside its ConfigMap."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from pyscheduler.config.problems import ConfigError, Problem, did_you_mean, shown
from pyscheduler.config.yaml_reader import Document, InvalidYaml, read

ACTIONS: Final = (
    "enqueue",
    "allocate",
    "backfill",
    "preempt",
    "reclaim",
    "gangPreempt",
    "gangReclaim",
    "shuffle",
    "elect",
    "reserve",
)
"""Actions of all versions. Volcano does not start with others."""
Arguments = Mapping[str, Any]


class VolcanoPlugin(msgspec.Struct, frozen=True):
    """Plugin of a tier."""

    name: str
    flags: Mapping[str, Any] = {}
    """Values of its `enable…` flags, and of other fields that Volcano ignores."""
    arguments: Arguments = {}

    def enables(self, flag: str) -> bool:
        """Return the value of a flag, which is true by default."""
        return self.flags.get(flag) is not False

    def integer(self, argument: str, default: int) -> int:
        """Return an argument as an integer; the default if it is missing or, as in Volcano, not an integer."""
        try:
            return int(str(self.arguments.get(argument, default)).strip())
        except ValueError:
            return default


class VolcanoConf(msgspec.Struct, frozen=True):
    """Contents of volcano-scheduler.conf."""

    actions: tuple[str, ...]
    plugins: tuple[VolcanoPlugin, ...] = ()
    """Plugins of all tiers in their order."""
    configurations: tuple[VolcanoPlugin, ...] = ()
    """Arguments of actions."""
    metrics: Arguments = {}

    def plugin(self, name: str) -> VolcanoPlugin | None:
        """Return the first plugin with the name, or None."""
        return next((plugin for plugin in self.plugins if plugin.name == name), None)


def parse(text: str, source: str = "") -> VolcanoConf:
    """Return the configuration in a text: the file, or the ConfigMap that has it. ConfigError if it is invalid."""
    value = _only_document(text, source)
    if isinstance(value, dict) and value.get("kind") == "ConfigMap":
        key, text = _of_config_map(value, source)
        value = _only_document(text, f"{source}: data[{key}]" if source else key)
    reader = _ConfReader()
    conf = reader.conf(value)
    if reader.problems:
        raise ConfigError(reader.problems, source)
    return conf


def _only_document(text: str, source: str) -> Any:
    try:
        documents = read(text)
    except InvalidYaml as error:
        raise ConfigError([error.problem], source) from None
    problems = [problem for document in documents for problem in document.problems]
    if len(documents) != 1:
        problems.append(Problem("", f"must have one YAML document, not {len(documents)}"))
    if problems:
        raise ConfigError(problems, source)
    document: Document = documents[0]
    return document.value


def _of_config_map(value: Mapping[str, Any], source: str) -> tuple[str, str]:
    """Return the key and the text of the configuration in a ConfigMap: the only key, or the one that ends in .conf."""
    data = value.get("data")
    texts = {key: text for key, text in data.items() if isinstance(text, str)} if isinstance(data, dict) else {}
    found = [key for key in texts if key.endswith(".conf")] or list(texts)
    if len(found) != 1:
        keys = ", ".join(found) or "none"
        raise ConfigError(
            [Problem("data", f"must have one key that ends in .conf, such as volcano-scheduler.conf, not {keys}")],
            source,
        )
    return found[0], texts[found[0]]


class _ConfReader:
    """Conversion of the decoded YAML; collects problems."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def conf(self, value: Any) -> VolcanoConf:
        """Return the configuration, which is incomplete if there are problems."""
        if not isinstance(value, dict) or "tiers" not in value:
            self._add("", "is no configuration of Volcano's scheduler: it has no tiers")
            return VolcanoConf(())
        plugins = [
            self._plugin(plugin, f"tiers[{i}].plugins[{j}]")
            for i, tier in enumerate(self._list(value, "tiers", ""))
            for j, plugin in enumerate(self._list(tier, "plugins", f"tiers[{i}]"))
        ]
        configurations = [
            self._plugin(each, f"configurations[{i}]") for i, each in enumerate(self._list(value, "configurations", ""))
        ]
        return VolcanoConf(
            self._actions(value.get("actions")),
            tuple(plugins),
            tuple(configurations),
            self._mapping(value.get("metrics"), "metrics"),
        )

    def _actions(self, value: Any) -> tuple[str, ...]:
        if not isinstance(value, str):
            self._add("actions", f'must be names separated by commas, such as "enqueue, allocate", not {shown(value)}')
            return ()
        names = tuple(name for each in value.split(",") if (name := each.strip()))
        for name in names:
            if name not in ACTIONS:
                self._add("actions", f"{name} is no action of Volcano{did_you_mean(name, ACTIONS)}")
        return names

    def _plugin(self, value: Any, path: str) -> VolcanoPlugin:
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            self._add(path, f"must have a name, but is {shown(value)}")
            return VolcanoPlugin("")
        arguments = self._mapping(value.get("arguments"), f"{path}.arguments")
        flags = {key: each for key, each in value.items() if key not in ("name", "arguments")}
        return VolcanoPlugin(value["name"], flags, arguments)

    def _list(self, value: Any, key: str, path: str) -> Iterable[Any]:
        items = value.get(key) if isinstance(value, dict) else value
        if items is None:
            return ()
        if not isinstance(items, list):
            self._add(f"{path}.{key}".lstrip("."), f"must be a list, not {shown(items)}")
            return ()
        return items

    def _mapping(self, value: Any, path: str) -> Arguments:
        if value is None or isinstance(value, dict):
            return value or {}
        self._add(path, f"must be a mapping, not {shown(value)}")
        return {}

    def _add(self, path: str, message: str) -> None:
        self.problems.append(Problem(path, message))
