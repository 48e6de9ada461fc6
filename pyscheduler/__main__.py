"""`python -m pyscheduler` is the `pyscheduler` command."""

from pyscheduler.cli import main

main()
