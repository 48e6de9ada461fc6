"""Options in titled sections of a command's help: `run` has too many flags for one list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any] | click.Command)

OTHER: Final = "Other"
"""Title of the last section, which has `--help` and all options without a section."""


_WHOLE: Final = 1_000
"""Characters of a help line, more than any has."""


class SectionOption(click.Option):
    """Option with the title of its section; an empty default is not shown."""

    def __init__(self, names: Sequence[str], *, section: str, **attributes: Any) -> None:
        if attributes.get("default") == "":
            attributes["show_default"] = False
        super().__init__(names, **attributes)
        self.section = section


class SectionedCommand(click.Command):
    """Command with help that lists the options by section, in the order in which the sections first appear."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                title = parameter.section if isinstance(parameter, SectionOption) else OTHER
                sections.setdefault(title, []).append(record)
        others = sections.pop(OTHER, [])
        for title, records in (*sections.items(), (OTHER, others)):
            with formatter.section(title):
                formatter.write_dl(records)


class FullHelpGroup(click.Group):
    """Group with help that lists each subcommand with its whole first sentence, which click would cut at the line."""

    group_class = type

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, c.get_short_help_str(_WHOLE)) for name, c in commands if c and not c.hidden])


def option(*names: str, section: str = OTHER, **attributes: Any) -> Callable[[F], F]:
    """Return an option as `click.option` does, listed in a section of the help."""
    return click.option(*names, cls=SectionOption, section=section, **attributes)
