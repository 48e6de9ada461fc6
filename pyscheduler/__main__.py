"""`python -m pyscheduler` is the `pyscheduler` command."""

import os
import sys

# Python puts the current directory first, where a plugin's file could take the place of an installed module.
if sys.path and sys.path[0] in ("", os.getcwd()):
    sys.path.append(sys.path.pop(0))

from pyscheduler.cli import main

main()
