"""Declarations for device selectors of Kubernetes 1.37, as stored expressions are compiled: every feature enabled."""

from __future__ import annotations

from typing import Final

from pyscheduler.cel.checker import Declarations
from pyscheduler.cel.functions.kubernetes import LIBRARY, merge_libraries
from pyscheduler.cel.functions.optionals import OPTIONALS_LIBRARY
from pyscheduler.cel.functions.quantities import QUANTITY_LIBRARY
from pyscheduler.cel.functions.standard import STANDARD_LIBRARY
from pyscheduler.cel.functions.times import TIMES_LIBRARY
from pyscheduler.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    LIST,
    MAP,
    NULL,
    OPTIONAL,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    CelType,
    map_of,
    struct,
)

_QUANTITY: Final = QUANTITY_LIBRARY["quantity"][0].result
_DEVICE: Final = struct("kubernetes.DRADevice")

_TYPES: Final[dict[str, CelType]] = {
    kind.name: kind
    for kind in (BOOL, BYTES, DOUBLE, DURATION, INT, LIST, MAP, NULL, OPTIONAL, STRING, TIMESTAMP, TYPE, UINT)
}

DECLARATIONS: Final = Declarations(
    variables={"device": _DEVICE},
    fields={
        _DEVICE.name: {
            "driver": STRING,
            "allowMultipleAllocations": BOOL,
            "attributes": map_of(STRING, map_of(STRING, DYN)),
            "capacity": map_of(STRING, map_of(STRING, _QUANTITY)),
        }
    },
    types=_TYPES,
    functions=merge_libraries(STANDARD_LIBRARY, TIMES_LIBRARY, OPTIONALS_LIBRARY, LIBRARY),
)
