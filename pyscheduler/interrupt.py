"""Ctrl-C: the end of the process before and after a command runs.

Before it, a module may be half imported; after it, the interpreter may be reporting an error or shutting down. There
KeyboardInterrupt would print a traceback. This module is the first that the `main` of a program imports, and it imports
only `signal`, which takes a millisecond.
"""

from __future__ import annotations

import os
import signal

EXIT_CODE = 130
"""Exit code of a program that SIGINT has ended, as in shells."""


def exit_at_once() -> None:
    """Let Ctrl-C end the process from now on, unless SIGINT is ignored, as in the background of a shell."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, exit_process)


def exit_process(*_: object) -> None:
    """End the process: the handler of SIGINT while no command runs."""
    os._exit(EXIT_CODE)
