"""kube-scheduler's other flags: what counts, what only warns, and what ends the start."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner, Result

import pyscheduler
from pyscheduler.cli import app
from pyscheduler.cli.compat import IGNORED, Ignored
from pyscheduler.config.loaded import LoadedConfig

FILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {qps: 7, kubeconfig: of-the-file}
"""


class Start(NamedTuple):
    """What the scheduler would have been started with."""

    config: LoadedConfig
    server: tuple[Path | None, str]
    kept: tuple[float, float, float]
    longest: float
    flags: dict[str, Any]


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[Start]:
    seen: list[Start] = []

    async def note(config: LoadedConfig, given: Any, serving: Any, _: Any) -> int:
        server, longest = (given.kubeconfig, given.server), given.max_unschedulable_seconds
        seen.append(Start(config, server, serving.review_ttls, longest, given.flags()))
        return 0

    monkeypatch.setattr(import_module("pyscheduler.cli.run"), "_run", note)
    return seen


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(FILE)
    return path


def run(*args: str) -> Result:
    return CliRunner().invoke(app, ["run", *args])


def test_without_flags_all_is_as_kube_scheduler_has_it(starts: list[Start]) -> None:
    assert run().exit_code == 0
    (start,) = starts
    assert (start.server, start.kept, start.longest) == ((None, ""), (10.0, 10.0, 10.0), 300.0)
    assert start.config.configuration.enable_profiling is True


def test_deprecated_flags_count_without_a_file(starts: list[Start]) -> None:
    flags = ["--kube-api-qps=5.5", "--kube-api-burst=9", "--kube-api-content-type=application/json"]
    assert run(*flags, "--profiling=false").exit_code == 0
    configuration = starts[0].config.configuration
    connection = configuration.client_connection
    assert (connection.qps, connection.burst, connection.content_type) == (5.5, 9, "application/json")
    assert (configuration.enable_profiling, configuration.enable_contention_profiling) == (False, False)


def test_and_beside_a_file_they_do_not(starts: list[Start], file: Path) -> None:
    result = run("--config", str(file), "--kube-api-qps=5", "--profiling=false")
    assert result.exit_code == 0
    configuration = starts[0].config.configuration
    assert (configuration.client_connection.qps, configuration.enable_profiling) == (7, True)
    assert "without effect beside --config: flags for clientConnection, enableProfiling" in result.output


def test_the_address_goes_before_any_kubeconfig(starts: list[Start], file: Path) -> None:
    run("--master=https://a:1")
    run("--config", str(file), "--master=https://a:1")
    run("--config", str(file), "--kubeconfig=of-the-flag")
    assert [start.server for start in starts] == [
        (None, "https://a:1"),
        (Path("of-the-file"), "https://a:1"),
        (Path("of-the-flag"), ""),
    ]


def test_times(starts: list[Start]) -> None:
    run(
        *("--authentication-token-webhook-cache-ttl=1s", "--authorization-webhook-cache-authorized-ttl=2m"),
        *("--authorization-webhook-cache-unauthorized-ttl=300ms", "--pod-max-in-unschedulable-pods-duration=1m"),
    )
    run("--pod-max-in-unschedulable-pods-duration=0")
    assert [(start.kept, start.longest) for start in starts] == [
        ((1.0, 120.0, 0.3), 60.0),
        ((10.0, 10.0, 10.0), 300.0),
    ]


@pytest.mark.parametrize("flag", IGNORED, ids=lambda flag: flag.name)
def test_what_has_no_effect_is_taken_and_told(starts: list[Start], flag: Ignored) -> None:
    result = run(f"--{flag.name}" if flag.switch else f"--{flag.name}=5")
    assert (result.exit_code, len(starts)) == (0, 1)
    assert f"--{flag.name} has no effect: {flag.why}" in result.output


def test_what_was_not_wanted_anyway_is_not_told(starts: list[Start]) -> None:
    result = run("--permit-port-sharing=false", "--log-json-split-stream=false")
    assert (len(starts), result.output) == (1, "")


@pytest.mark.parametrize(
    "flag", ["--emulated-version=1.36", "--emulated-version=kube=v1.36.3", "--min-compatibility-version=1.36", "-v=2"]
)
def test_what_is_so_anyway_is_taken(starts: list[Start], flag: str) -> None:
    assert run(flag).exit_code == 0
    assert len(starts) == 1


@pytest.mark.parametrize(
    ("flag", "told"),
    [
        ("--emulated-version=1.35", "1.35 cannot be followed, 1.36 alone is"),
        ("--min-compatibility-version=1.30", "1.30 cannot be followed"),
        ("--tls-sni-cert-key=a.crt,a.key", "one certificate is served"),
        ("--tls-curve-preferences=CurveP384", "OpenSSL's own choice"),
        ("--pod-max-in-unschedulable-pods-duration=soon", '"soon" is not a duration'),
        ("--kube-api-qps=many", "'many' is not a valid float"),
        ("--profiling=perhaps", "'perhaps' is not a valid boolean"),
        ("-v=lots", "--v"),
    ],
)
def test_what_cannot_be_done_is_wrong_usage(starts: list[Start], flag: str, told: str) -> None:
    result = run(flag)
    assert (result.exit_code, starts) == (2, [])
    assert flag.partition("=")[0] in result.output
    assert told in result.output


def test_the_version_is_told_and_nothing_done(starts: list[Start]) -> None:
    result = run("--version")
    assert (result.exit_code, starts) == (0, [])
    assert result.output == f"pyscheduler {pyscheduler.__version__} (Kubernetes v1.36)\n"


def test_every_flag_is_told_by_its_name(starts: list[Start]) -> None:
    run("--secure-port=0", "--leader-elect", "--feature-gates=SchedulerQueueingHints=true")
    flags = starts[0].flags
    assert (flags["secure-port"], flags["leader-elect"], flags["v"]) == (0, True, 0)
    assert flags["feature-gates"] == ("SchedulerQueueingHints=true",)
    assert "config" in flags
    assert "version" not in flags
