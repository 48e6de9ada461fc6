"""`python -m pyscheduler` runs the `pyscheduler` command."""

import os
import sys

# Python searches the current directory first, where a plugin's file could shadow an installed module.
if sys.path and sys.path[0] in ("", os.getcwd()):
    sys.path.append(sys.path.pop(0))

from pyscheduler.cli import main

main()
