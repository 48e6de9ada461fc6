"""`--help` of commands with many options lists them in titled sections."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click
import pytest
from click.testing import CliRunner

from pyscheduler.cli.bench import compare
from pyscheduler.cli.commands import HELP, OTHER_NAMES
from pyscheduler.cli.program import app
from pyscheduler.cli.run import run
from pyscheduler.cli.sections import OTHER, SectionedCommand, option
from pyscheduler.cli.tasks import run as run_tasks
from pyscheduler.cli.tasks import submit, tasks
from pyscheduler.cli.up import up

COMMANDS = {"run": run, "up": up, "tasks run": run_tasks, "tasks submit": submit, "bench compare": compare}


def sections(command: click.Command) -> dict[str, list[str]]:
    """Return the flags in each section of a command's help; "" is the text before the first section."""
    text = CliRunner().invoke(command, ["--help"], terminal_width=100).output
    flags: dict[str, list[str]] = {"": []}
    for line in text.splitlines():
        if line.endswith(":") and not line.startswith(" "):
            flags[line.removesuffix(":")] = []
        elif line.startswith("  -"):
            flags[list(flags)[-1]] += (word for word in line.split()[:2] if word.startswith("--"))
    return flags


@pytest.mark.parametrize("name", COMMANDS)
def test_every_shown_flag_is_in_a_titled_section(name: str) -> None:
    others = sections(COMMANDS[name])[OTHER]
    assert [flag for flag in others if flag not in ("--version", "--help")] == []


TASKS = [command for command in tasks.commands.values() if not command.hidden]


@pytest.mark.parametrize("command", TASKS, ids=lambda command: command.name)
def test_help_of_tasks_shows_no_empty_defaults_or_types_and_what_may_be_repeated(command: click.Command) -> None:
    text = CliRunner().invoke(command, ["--help"]).output
    assert '[default: ""]' not in " ".join(text.split())
    assert " RANGE" not in text
    repeated = [option for option in command.params if isinstance(option, click.Option) and option.multiple]
    assert [option.opts for option in repeated if "May be repeated." not in str(option.help)] == []


def test_flags_of_one_subject_are_together() -> None:
    shown = sections(run)
    assert list(shown) == [
        *("", "Configuration", "API server", "Leader election", "Logs", "Recording"),
        *("Secure serving", "Authentication", "Authorization", "Other"),
    ]
    assert {"--kubeconfig", "--master", "--kube-api-qps"} <= set(shown["API server"])
    assert all(flag.startswith("--leader-elect") for flag in shown["Leader election"])
    assert "--authentication-token-webhook-cache-ttl" in shown["Authentication"]


def test_compatibility_flags_are_accepted_but_not_listed() -> None:
    listed = {flag for flags in sections(run).values() for flag in flags}
    assert listed.isdisjoint({"--vmodule", "--http2-max-streams-per-connection"})
    assert "--vmodule" in names(run.params)


def names(parameters: Iterable[click.Parameter]) -> set[str]:
    return {name for parameter in parameters for name in parameter.opts}


@click.command(cls=SectionedCommand, context_settings={"show_default": True})
@option("--first", section="A", default="", help="One.")
@option("--second", help="Two.")
@option("--third", section="A", default="x", help="Three.")
def example(**flags: str) -> None:
    """Do nothing."""


def test_options_without_a_section_come_last_and_empty_defaults_are_not_shown() -> None:
    text = CliRunner().invoke(example, ["--help"]).output
    assert text[text.index("A:") :] == (
        "A:\n  --first TEXT  One.\n  --third TEXT  Three.  [default: x]\n"
        "\nOther:\n  --second TEXT  Two.\n  --help         Show this message and exit.\n"
    )


def every_command(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of a command and of those below it."""
    yield words
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from every_command(below, (*words, name))


@pytest.mark.parametrize("words", list(every_command(app)), ids=lambda words: " ".join(words) or "pyscheduler")
def test_help_shows_whole_sentences_and_real_ranges(words: tuple[str, ...]) -> None:
    text = CliRunner().invoke(app, [*words, "--help"], terminal_width=100).output
    commands = text.partition("\nCommands:\n")[2].partition("\n\n")[0]
    assert "..." not in commands
    assert "=None" not in text


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_name_of_another_programs_command_leads_to_the_one_here(name: str) -> None:
    result = CliRunner().invoke(app, [name, "pod-1"])
    assert (result.exit_code, f"Did you mean '{OTHER_NAMES[name]}'?" in result.output) == (2, True)
    word = OTHER_NAMES[name].split()[0]
    assert word in HELP or CliRunner().invoke(app, [word]).exit_code == 0
