"""Standard output of commands that print tables, and text of objects in them."""

from __future__ import annotations

import os
import re
from typing import Final

from rich.console import Console, RenderableType
from rich.markup import escape as without_markup

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def escape(text: str) -> str:
    """Return text as it is to be shown: it has no markup, and its control characters do nothing to the terminal."""
    return without_markup(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", text))


def stdout_console(piped_width: int) -> Console:
    """Return the console of standard output; `piped_width` is its number of columns if that is no terminal."""
    found = Console(highlight=False)
    return found if found.is_terminal or "COLUMNS" in os.environ else Console(highlight=False, width=piped_width)


def print_part(console: Console, part: RenderableType) -> None:
    """Print a part of a report; to a file or a pipe without spaces at the ends of lines."""
    if console.is_terminal:
        console.print(part)
        return
    with console.capture() as text:
        console.print(part)
    print("\n".join(line.rstrip() for line in text.get().splitlines()))  # rich pads all lines to one length
