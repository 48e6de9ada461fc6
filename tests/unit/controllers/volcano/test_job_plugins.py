"""Arguments of the plugins of Volcano Jobs, and what is wrong with them."""

from __future__ import annotations

import pytest

from pyscheduler.controllers.volcano.job_plugins import (
    ArgumentError,
    Env,
    JobPlugins,
    Mpi,
    PyTorch,
    Ray,
    Ssh,
    Svc,
    TensorFlow,
    read_plugins,
)

TASKS = ("master", "worker", "head", "launcher")


@pytest.mark.parametrize(
    ("name", "implied"),
    [
        ("env", JobPlugins(env=Env())),
        ("svc", JobPlugins(svc=Svc())),
        ("ssh", JobPlugins(ssh=Ssh())),
        ("mpi", JobPlugins(mpi=Mpi(), svc=Svc(), ssh=Ssh())),
        ("pytorch", JobPlugins(pytorch=PyTorch(), svc=Svc())),
        ("tensorflow", JobPlugins(tensorflow=TensorFlow(), svc=Svc())),
        ("ray", JobPlugins(ray=Ray(), svc=Svc())),
    ],
)
def test_plugins_that_others_imply(name: str, implied: JobPlugins) -> None:
    assert read_plugins({name: None}, TASKS) == implied


def test_arguments_of_an_implied_plugin_are_kept() -> None:
    found = read_plugins({"mpi": [], "svc": ["--publish-not-ready-addresses=false"]}, TASKS)
    assert found.svc == Svc(publish_not_ready_addresses=False)
    assert found.names == ["svc", "ssh", "mpi"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--master=launcher", "--port=2222"],
        ["-master=launcher", "-port=2222"],
        ["--master", "launcher", "--port", "2222"],
        ["--port=1", "--port=2222", "--master=launcher"],
    ],
)
def test_flag_syntax_of_go_is_accepted(arguments: list[str]) -> None:
    assert read_plugins({"mpi": arguments}, TASKS).mpi == Mpi(master="launcher", port=2222)


@pytest.mark.parametrize(
    ("flag", "expected"), [("--disable-network-policy", True), ("-disable-network-policy=0", False)]
)
def test_switch_needs_no_value(flag: str, expected: bool) -> None:
    found = read_plugins({"svc": [flag, "--inject-hosts-env=true"]}, ())
    assert found.svc == Svc(disable_network_policy=expected, inject_hosts_env=True)


def test_tasks_with_default_names_may_be_missing() -> None:
    found = read_plugins({"tensorflow": ["--chief=chief"], "pytorch": []}, ())
    assert (found.tensorflow, found.pytorch) == (TensorFlow(), PyTorch())


@pytest.mark.parametrize(
    ("plugin", "arguments", "problem"),
    [
        ("hccl", [], ": is not supported: supported values: env, svc, ssh, mpi, pytorch, tensorflow, ray"),
        ("mpi", ["--prot=1"], "[0]: --prot is not supported: supported values: --master, --worker, --port"),
        ("env", ["--x"], "[0]: --x is not supported: supported values: none"),
        ("mpi", ["worker"], "[0]: Invalid value: must have the form --flag=value"),
        ("mpi", ["--worker", "worker", "--port"], "[2]: Required value: --port needs a value"),
        ("mpi", ["--port=ssh"], "[0]: Invalid value: --port=ssh: Expected `int`, got `str`"),
        ("pytorch", ["--port=65536"], "[0]: Invalid value: --port=65536: Expected `int` <= 65535"),
        ("svc", ["--disable-network-policy=on"],
         "[0]: Invalid value: --disable-network-policy=on: Expected `bool`, got `str`"),
        ("ssh", ["--ssh-key-file-path=keys"],
         "[0]: Invalid value: --ssh-key-file-path=keys: Expected `str` matching regex '^/[^:]*$'"),
        ("ssh", ["--ssh-public-key=ssh-rsa AAAA"],
         ": Required value: --ssh-private-key and --ssh-public-key belong together"),
        ("mpi", ["--port=22", "--worker=node"], "[1]: Not found: --worker=node must be the name of a task"),
        ("ray", ["--head=main"], "[0]: Not found: --head=main must be the name of a task"),
    ],
)  # fmt: skip
def test_problem_of_an_argument(plugin: str, arguments: list[str], problem: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        read_plugins({plugin: arguments}, TASKS)
    assert str(raised.value) == f"spec.plugins.{plugin}{problem}"


@pytest.mark.parametrize(("plugin", "role"), [("mpi", "master"), ("ray", "head")])
def test_master_and_head_tasks_are_required(plugin: str, role: str) -> None:
    with pytest.raises(ArgumentError, match=f"^spec.plugins.{plugin}: Not found: --{role}={role} must be the name"):
        read_plugins({plugin: []}, ("worker",))


@pytest.mark.parametrize(
    "arguments", [["-----BEGIN RSA PRIVATE KEY-----\nMIIabc=="], ["--ssh-private-key=MIIabc==", "MIIabc=="]]
)
def test_problem_does_not_quote_a_key(arguments: list[str]) -> None:
    with pytest.raises(ArgumentError) as raised:
        read_plugins({"ssh": arguments}, ())
    assert "MIIabc" not in str(raised.value)
