"""Ctrl-C: KeyboardInterrupt while a command runs, so that it cleans up; the end of the process before and after that.

Before it, a module may be half imported; after it, the interpreter may be reporting an error or shutting down. There
KeyboardInterrupt would print a traceback.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

EXIT_CODE: Final = 130
"""Exit code of a program that SIGINT has ended, as in shells."""


def exit_at_once() -> None:
    """Let Ctrl-C end the process from now on, unless SIGINT is ignored, as in the background of a shell."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit)


@contextmanager
def raised() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt, if it would end the process."""
    if signal.getsignal(signal.SIGINT) is not _exit:
        yield
        return
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
    finally:
        signal.signal(signal.SIGINT, _exit)


def _exit(*_: object) -> None:
    os._exit(EXIT_CODE)
