"""The flags of the endpoints, and what is served."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pyscheduler.cli import app, endpoints
from pyscheduler.cli.endpoints import EndpointOptions
from pyscheduler.config.load import loads

EXTENDER = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- urlPrefix: https://extender.example.com
  filterVerb: filter
  enableHTTPS: true
  tlsConfig: {certData: Y2VydA==, keyData: a2V5}
"""


def parsed(*flags: str) -> EndpointOptions:
    """What a command is given."""
    taken: list[EndpointOptions] = []

    @click.command
    @endpoints.options
    def command(serving: EndpointOptions) -> None:
        taken.append(serving)

    result = CliRunner().invoke(command, flags, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return taken[0]


def test_the_defaults_are_kube_schedulers() -> None:
    plain = parsed()
    assert (plain.bind_address, plain.secure_port) == ("0.0.0.0", 10259)
    assert plain.authorization_always_allow_paths == "/healthz,/readyz,/livez"
    assert (plain.authentication_skip_lookup, plain.authentication_tolerate_lookup_failure) == (False, True)
    assert plain.tls_cert_file is plain.client_ca_file is plain.cert_dir is None


def test_flags_are_written_as_for_kube_scheduler() -> None:
    given = parsed(
        "--tls-cert-file=a.crt", "--tls-private-key-file=a.key", "--authentication-skip-lookup=true", "--secure-port=0"
    )
    assert (given.tls_cert_file, given.tls_private_key_file) == (Path("a.crt"), Path("a.key"))
    assert (given.authentication_skip_lookup, given.secure_port) == (True, 0)


@pytest.mark.parametrize("flag", ["--authentication-skip-lookup=perhaps", "--secure-port=high"])
def test_a_flag_that_cannot_be_read_is_wrong_usage(flag: str) -> None:
    assert CliRunner().invoke(app, ["run", flag]).exit_code == 2


def test_configz_shows_both_documents_and_no_keys() -> None:
    shown = endpoints.configz(loads(EXTENDER))
    assert shown["componentconfig"]["kind"] == "KubeSchedulerConfiguration"
    assert shown["componentconfig"]["podMaxBackoffSeconds"] == 10
    tls = shown["componentconfig"]["extenders"][0]["tlsConfig"]
    assert (tls["certData"], tls["keyData"]) == ("Y2VydA==", "(not shown)")
    assert shown["pyscheduler"]["kind"] == "PySchedulerConfiguration"
