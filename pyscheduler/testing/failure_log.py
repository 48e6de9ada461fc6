"""Log of the plugins that fail in a harness: pytest prints it, with the traceback, if the test fails."""

from __future__ import annotations

from logging import getLogger
from typing import Final

from pyscheduler.api.return_values import InvalidReturnValue
from pyscheduler.core.framework.plugin_failure import code_line, describe
from pyscheduler.core.instrument import Instrument

_log: Final = getLogger("pyscheduler.testing")


class FailureLog(Instrument):
    """Instrument that logs each failure of a plugin and ignores everything else."""

    def plugin_failed(self, plugin: str, point: str, error: BaseException) -> None:
        at = code_line(error)
        place = f" ({at})" if at else ""
        if isinstance(error, InvalidReturnValue):
            _log.error("Plugin %s failed in %s%s: %s", plugin, point, place, error)
        else:
            _log.error("Plugin %s failed in %s%s: %s", plugin, point, place, describe(error), exc_info=error)
