"""`pyscheduler completion`: scripts that complete commands, options and files in a shell."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

SHELLS: Final = ("bash", "zsh", "fish")
_HELP: Final = """Print the script that completes commands and options in SHELL.

\b
Enable it in the startup file of the shell:
  bash, ~/.bashrc:                   source <(pyscheduler completion bash)
  zsh, ~/.zshrc:                     source <(pyscheduler completion zsh)
  fish, ~/.config/fish/config.fish:  pyscheduler completion fish | source
"""


@click.command(help=_HELP)
@click.argument("shell", metavar="SHELL", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    program, script = context.find_root(), get_completion_class(shell)
    assert script is not None
    click.echo(script(program.command, {}, "pyscheduler", "_PYSCHEDULER_COMPLETE").source())
