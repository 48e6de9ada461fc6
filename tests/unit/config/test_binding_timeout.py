"""Timeout of binding cycles: default, configured, invalid."""

from __future__ import annotations

import pytest

from pyscheduler.config.binding_timeout import binding_timeout
from pyscheduler.config.load import ConfigError, loads
from tests.unit.config.files import config

HEAD = "leaderElection: {leaderElect: false}\n"


def volumes(seconds: int) -> str:
    """Return a profile with this timeout of volume binding."""
    args = f"[{{name: VolumeBinding, args: {{bindTimeoutSeconds: {seconds}}}}}]"
    return f"{HEAD}profiles: [{{pluginConfig: {args}}}]"


@pytest.mark.parametrize(
    ("kube", "ours", "seconds"),
    [
        pytest.param(HEAD, "", 1800.0, id="default"),
        pytest.param(volumes(3600), "", 4500.0, id="volume binding of one hour"),
        pytest.param(HEAD, "bindingTimeout: 11m", 660.0, id="configured"),
        pytest.param(volumes(3600), "bindingTimeout: 0s", 0.0, id="no limit"),
        pytest.param(volumes(60), "bindingTimeout: 1m1s", 61.0, id="just above the timeout of volume binding"),
    ],
)
def test_binding_timeout(kube: str, ours: str, seconds: float) -> None:
    assert binding_timeout(loads(config(kube, ours))) == seconds


@pytest.mark.parametrize(
    ("kube", "ours", "problem"),
    [
        (
            HEAD,
            "bindingTimeout: 10m",
            "bindingTimeout: must exceed bindTimeoutSeconds of VolumeBinding (600 s) or be 0 (no limit), not 10m0s",
        ),
        (HEAD, "bindingTimeout: -1s", "bindingTimeout: must be 0 (no limit) or positive, not -1s"),
    ],
)
def test_timeout_below_volume_binding_is_rejected(kube: str, ours: str, problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        loads(config(kube, ours))
    assert [str(each) for each in error.value.problems] == [problem]
