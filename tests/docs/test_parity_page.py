"""The plugin table lists each plugin's extension points and args."""

from __future__ import annotations

import dataclasses

from pyscheduler import intree
from pyscheduler.config.fields import camel
from pyscheduler.core.framework.registry import points_of
from tests.docs.pages import rows, words_in_code

TABLE = {name: (points, args, parity) for name, points, args, parity in rows("docs/parity.md", "Plugins")}


def test_every_plugin_of_kube_scheduler_is_in_the_table() -> None:
    assert list(TABLE) == [plugin.name for plugin in intree.PLUGINS]


def test_table_has_the_points_and_args_of_each_plugin() -> None:
    for plugin in intree.PLUGINS:
        points, args, parity = TABLE[plugin.name]
        assert points.split(", ") == list(points_of(plugin)), plugin.name
        assert words_in_code(args) == [camel(field.name) for field in dataclasses.fields(plugin.Args)], plugin.name
        assert parity
