"""How long a binding cycle may take: what is said, what is not said, and what cannot be meant."""

from __future__ import annotations

import pytest

from pyscheduler.config.binding_timeout import binding_timeout
from pyscheduler.config.load import ConfigError, loads
from tests.unit.config.files import config

HEAD = "leaderElection: {leaderElect: false}\n"


def volumes(seconds: int) -> str:
    """A profile that lets volumes take so long."""
    args = f"[{{name: VolumeBinding, args: {{bindTimeoutSeconds: {seconds}}}}}]"
    return f"{HEAD}profiles: [{{pluginConfig: {args}}}]"


@pytest.mark.parametrize(
    ("kube", "ours", "seconds"),
    [
        pytest.param(HEAD, "", 1800.0, id="nothing said"),
        pytest.param(volumes(3600), "", 4500.0, id="volumes that may take an hour"),
        pytest.param(HEAD, "bindingTimeout: 11m", 660.0, id="said"),
        pytest.param(volumes(3600), "bindingTimeout: 0s", 0.0, id="any time"),
        pytest.param(volumes(60), "bindingTimeout: 1m1s", 61.0, id="longer than volumes, just so"),
    ],
)
def test_it_is_what_is_said_or_long_enough_for_volumes(kube: str, ours: str, seconds: float) -> None:
    assert binding_timeout(loads(config(kube, ours))) == seconds


@pytest.mark.parametrize(
    ("kube", "ours", "problem"),
    [
        (
            HEAD,
            "bindingTimeout: 10m",
            "bindingTimeout: must exceed bindTimeoutSeconds of VolumeBinding (600 s) or be 0 (no limit), "
            "not 10m0s",
        ),
        (HEAD, "bindingTimeout: -1s", "bindingTimeout: must be 0 (no limit) or positive, not -1s"),
    ],
)
def test_what_would_cut_volumes_short_is_refused(kube: str, ours: str, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        loads(config(kube, ours))
    assert [str(found) for found in refused.value.problems] == [problem]
