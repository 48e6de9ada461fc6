"""`python -m pyscheduler.controllers [--kubeconfig FILE]`: run the PodGroup controller alone."""

from __future__ import annotations


def main() -> int:
    """Run the controller. Ctrl-C ends it without a traceback, whatever it is doing."""
    try:
        from pyscheduler import interrupt

        interrupt.exit_at_once()
    except KeyboardInterrupt:
        return 130
    # Imported here because it takes half a second, in which Ctrl-C may arrive.
    from pyscheduler.controllers.command import run

    return run()


if __name__ == "__main__":
    raise SystemExit(main())
