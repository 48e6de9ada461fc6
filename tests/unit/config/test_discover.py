"""External plugins by import path or entry point, and their errors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from pyscheduler.config import discover
from pyscheduler.config.load import default, loads
from pyscheduler.core.framework.registry import DuplicatePlugin, PluginRegistration, Registry, points_of
from pyscheduler.intree import FEATURE_GATES, PLUGINS
from tests.unit.config import plugins
from tests.unit.config.files import config, names, offer, only_problem, profile

FIRST = """
from pyscheduler.api import FilterPlugin

class Mine(FilterPlugin):
    name = "Mine"

    def filter(self, cycle, pod, node):
        return None
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Empty current directory; modules imported from it are removed afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for module in ("mine_here", "broken_here"):
        sys.modules.pop(module, None)


def enable(name: str) -> str:
    return profile(f"plugins: {{filter: {{enabled: [{{name: '{name}'}}]}}}}")


def test_class_in_the_current_directory_is_loaded_by_import_path(folder: Path) -> None:
    (folder / "mine_here.py").write_text(FIRST)
    loaded = loads(enable("mine_here:Mine"))
    assert names(loaded, "filter")[-1] == "Mine"
    assert loaded.registry["Mine"].distribution == "mine_here"
    assert loaded.imported == {"Mine": "mine_here:Mine"}


def test_file_in_the_current_directory_does_not_shadow_an_installed_module(folder: Path) -> None:
    (folder / "mine_here.py").write_text("import tomllib\n" + FIRST)
    (folder / "tomllib.py").write_text("raise RuntimeError('not the one of the standard library')")
    sys.modules.pop("tomllib", None)
    assert names(loads(enable("mine_here:Mine")), "filter")[-1] == "Mine"
    assert sys.path[-1] == str(folder)


def test_second_document_registers_classes_by_name() -> None:
    ours = """
        seed: 7
        plugins:
        - {class: "tests.unit.config.plugins:Picky", name: Picky}
        - {class: "tests.unit.config.plugins:Second"}
        """
    body = """
        profiles:
        - plugins: {filter: {enabled: [{name: Second}]}}
        """
    loaded = loads(config(body, ours))
    assert names(loaded, "filter")[-1] == "Second"
    assert "Picky" in loaded.registry
    assert loaded.python.seed == 7


def test_import_path_can_be_used_at_several_points_and_in_plugin_config() -> None:
    loaded = loads(
        profile("""
            plugins:
              filter: {enabled: [{name: "tests.unit.config.plugins:Picky"}]}
              score: {enabled: [{name: "tests.unit.config.plugins:Picky", weight: 2}]}
              multiPoint: {disabled: [{name: "tests.unit.config.plugins:Second"}]}
            pluginConfig:
            - name: tests.unit.config.plugins:Picky
              args: {label: a, colour: blue, rules: [{key: k}], patience: 1m30s, limits: {x: 1}}
            """)
    )
    args = loaded.profiles[0].args["Picky"]
    assert args == plugins.Picky.Args("a", plugins.Colour.BLUE, "soft", (plugins.Picky.Rule("k"),), {"x": 1}, 90.0)


UNUSABLE = [
    ("nowhere_at_all:X", 'the module "nowhere_at_all" cannot be imported: ModuleNotFoundError: No module named'),
    (
        "tests.unit.config.plugins:Chaty",
        'the module "tests.unit.config.plugins" has no "Chaty"; did you mean "Chatty"?',
    ),
    ("tests.unit.config.plugins:not_a_class", '"tests.unit.config.plugins:not_a_class" is not a class'),
    ("tests.unit.config.plugins:", '"tests.unit.config.plugins:" is not an import path; write it as "module:Class"'),
    ("config plugins:X", '"config plugins:X" is not an import path; write it as "module:Class"'),
    (
        "tests.unit.config.plugins:Stranger",
        "tests.unit.config.plugins:Stranger is not a plugin: inherit from FilterPlugin or another base",
    ),
    (
        "tests.unit.config.plugins:Nameless",
        'tests.unit.config.plugins:Nameless has no name: give the class a line such as name = "Nameless"',
    ),
    (
        "tests.unit.config.plugins:Typo",
        'tests.unit.config.plugins:Typo does not define filter ("fitler" looks like a misspelt "filter")',
    ),
    ("tests.unit.config.plugins:LooseArgs", "tests.unit.config.plugins:LooseArgs has Args that are not a dataclass"),
    (
        "tests.unit.config.plugins:Lost",
        "tests.unit.config.plugins:Lost has Args that cannot be decoded: the annotations of Lost.Args cannot be re",
    ),
    (
        "tests.unit.config.plugins:Impostor",
        'a plugin named "NodeName" already exists: it is claimed by pyscheduler.intree.node',
    ),
]


@pytest.mark.parametrize(("reference", "expected"), UNUSABLE, ids=[reference for reference, _ in UNUSABLE])
def test_invalid_import_path_is_reported_in_one_line(reference: str, expected: str) -> None:
    assert only_problem(enable(reference)).startswith(f"profiles[0].plugins.filter.enabled[0].name: {expected}")
    assert only_problem(config("", f"plugins: [{{class: '{reference}'}}]")).startswith(f"plugins[0].class: {expected}")


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        ("def f(:", "SyntaxError: invalid syntax"),
        ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("from pyscheduler.api import QueueSortPlugin\nclass Q(QueueSortPlugin): pass", "TypeError: Q is a QueueSort"),
    ],
)
def test_failed_import_is_reported_in_one_line_with_its_cause(folder: Path, content: str, cause: str) -> None:
    (folder / "broken_here.py").write_text(content)
    expected = f'the module "broken_here" cannot be imported: {cause}'
    assert expected in only_problem(enable("broken_here:Mine"))


ARGS = [
    ("", "[name=Picky].args.label: is required"),
    ("{colour: green, label: a}", '[0].args.colour: "green" is not one of red, blue'),
    ("{mode: Soft, label: a}", '[0].args.mode: "Soft" is not one of soft, hard'),
    (
        "{rules: [{key: k, wieght: 1}], label: a}",
        '[0].args.rules[0].wieght: unknown field "wieght"; did you mean "weight"?',
    ),
    ("{limits: {x: y}, label: a}", '[0].args.limits.x: must be a whole number, not "y"'),
    ("{patience: 3, label: a}", '[0].args.patience: must be a duration; write "3s" for 3 seconds'),
    ("{ratio: .inf, label: a}", "[0].args.ratio: must be a number, not Infinity"),
    ("{ratio: -1, label: a}", "[0].args.ratio: must not be negative"),
    ("{label: forbidden}", "[0].args: this is invalid"),
]


@pytest.mark.parametrize(("args", "expected"), ARGS, ids=[args for args, _ in ARGS])
def test_args_are_validated_against_the_args_class_of_the_plugin(args: str, expected: str) -> None:
    text = enable("tests.unit.config.plugins:Picky") + (
        f"\n  pluginConfig: [{{name: Picky, args: {args}}}]" if args else ""
    )
    assert only_problem(text).startswith(f"profiles[0].pluginConfig{expected}")


def test_name_that_differs_from_the_class_is_rejected() -> None:
    text = config("", "plugins: [{class: 'tests.unit.config.plugins:Chatty', name: Quiet}]")
    assert only_problem(text) == 'plugins[0].name: the class has the name "Chatty", not "Quiet"'


def test_broken_distribution_is_an_error_only_if_its_plugin_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offer(monkeypatch, ("Lonely", "nowhere_at_all:Lonely"), ("Second", "tests.unit.config.plugins:Second"))
    loaded = loads(enable("Second"))
    assert [w[:60] for w in loaded.warnings] == ['plugin "Lonely" of an unknown distribution cannot be loaded:']
    assert 'plugin "Lonely" cannot be loaded: the module "nowhere_at_all"' in only_problem(enable("Lonely"))


def test_entry_points_are_not_searched_for_in_tree_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    def search() -> tuple[EntryPoint, ...]:
        raise AssertionError("entry points were searched")

    monkeypatch.setattr(discover, "_entry_points", search)
    own = profile("plugins: {filter: {disabled: [{name: NodePorts}], enabled: [{name: NodePorts}]}}")
    assert not {loaded.warnings for loaded in (default(), loads(own))} - {()}


def test_registry_access_loads_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, ("Second", "tests.unit.config.plugins:Second"))
    accesses: dict[str, Callable[[Registry], object]] = {
        "by name": lambda registry: "Second" in registry,
        "class": lambda registry: registry["Second"],
        "all": lambda registry: "Second" in registry.names(),
        "count": lambda registry: len(registry) == len(PLUGINS) - len(FEATURE_GATES) + 1,
    }
    assert all(access(default().registry) for access in accesses.values())
    with pytest.raises(KeyError, match="Third"):
        default().registry["Third"]


def test_duplicate_plugin_name_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(
        monkeypatch, ("NodeName", "tests.unit.config.plugins:Impostor"), ("Second", "tests.unit.config.plugins:Second")
    )
    expected = 'a plugin named "NodeName" already exists: it is claimed by'
    assert only_problem(enable("Second")).startswith(expected)


def test_imported_class_with_the_name_of_an_installed_plugin_is_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offer(monkeypatch, ("Second", "tests.unit.config.plugins:Second"))
    text = config("", "plugins: [{class: 'tests.unit.config.plugins:Namesake'}]")
    assert only_problem(text).startswith('plugins[0].class: a plugin named "Second" already exists')


def test_entry_point_must_have_the_name_of_its_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, ("Other", "tests.unit.config.plugins:Second"))
    problem = only_problem(enable("Other"))
    assert 'the entry point "Other" refers to a plugin with the name "Second"' in problem


def test_plugins_of_the_distribution_are_found() -> None:
    gang = default().registry["Gang"]
    assert (gang.distribution, gang.in_tree) == ("pyscheduler", False)
    assert gang.points == ("preEnqueue", "preFilter", "reserve", "permit")
    assert default().registry["PodGroups"].points == ("podGroup",)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("CapacityScheduling", "it is a plugin of scheduler-plugins; here, use Queues with PodGroups"),
        ("gang", "it is a plugin of Volcano; here, use PodGroups"),
    ],
)
def test_plugin_of_another_scheduler_is_reported_with_its_replacement(name: str, expected: str) -> None:
    assert f'.name: FilterPlugin "{name}" does not exist; {expected}' in only_problem(enable(name))


def test_a_dot_for_the_colon_of_an_import_path_is_reported_with_the_right_form() -> None:
    assert '"headroom.Headroom" does not exist; did you mean "headroom:Headroom"?' in only_problem(
        enable("headroom.Headroom")
    )


def test_error_for_missing_module_suggests_pythonpath(folder: Path) -> None:
    expected = (
        f"(looked in {folder} and the installed packages; run pyscheduler in the folder of the module, "
        "or add that folder to PYTHONPATH)"
    )
    assert expected in only_problem(enable("nowhere_at_all:Mine"))


def test_args_of_a_class_that_cannot_be_imported_are_no_second_problem(folder: Path) -> None:
    (folder / "broken_here.py").write_text("import nowhere\n")
    text = enable("broken_here:Mine") + "\n  pluginConfig: [{name: Mine, args: {}}]"
    assert "No module named 'nowhere'" in only_problem(text)


def test_points_of_a_class_are_in_framework_order() -> None:
    assert points_of(plugins.Second) == ("preFilter", "filter")
    assert points_of(plugins.Chatty) == ("filter", "score")
    assert points_of(plugins.Stranger) == ()


def test_registry_rejects_two_classes_of_one_name_but_accepts_one_class_twice() -> None:
    registry = Registry()
    registry.add(PluginRegistration("Second", plugins.Second, "a"))
    registry.add(PluginRegistration("Second", plugins.Second, "b"))
    assert registry.names() == ("Second",)
    with pytest.raises(DuplicatePlugin, match=r"claimed by tests\.unit\.config\.plugins:Second"):
        registry.add(PluginRegistration("Second", plugins.Chatty, "b"))
