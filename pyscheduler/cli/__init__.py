"""The `pyscheduler` command.

Exit codes: 0 success, 1 failure with the reason on stderr, 2 wrong usage, 130 Ctrl-C.
"""

from __future__ import annotations


def main() -> None:
    """Run the command line. Ctrl-C ends it without a traceback, whatever it is doing."""
    try:
        from pyscheduler import interrupt

        interrupt.exit_at_once()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    # Imported here because it takes a tenth of a second, in which Ctrl-C may arrive.
    from pyscheduler.cli.program import run

    run()
