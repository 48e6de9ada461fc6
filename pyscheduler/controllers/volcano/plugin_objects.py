"""Objects that the plugins and the volumes of a Volcano Job need before its pods.

Service and ConfigMap have the names that they have in Volcano, as programs depend on these. Names of the others contain
the UID of the Job: none of them exists before the Job does, and the controller needs no right to read or change them.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyscheduler.controllers.volcano.job_names import (
    Json,
    host_name,
    host_names,
    max_host_length,
    number_of_hosts,
    owned_metadata,
    unique_name,
)
from pyscheduler.controllers.volcano.job_plugins import Ray, Ssh, Svc
from pyscheduler.controllers.volcano.job_spec import JobSpec, Task, Volume
from pyscheduler.controllers.volcano.pods import JOB_NAME, JOB_NAMESPACE, TASK
from pyscheduler.controllers.volcano.ssh_keys import CONFIG, key_files

GCS, DASHBOARD, CLIENT = "gcs", "dashboard", "client-server"
_SSH: Final = "plugin-ssh"
_MAX_OBJECT: Final = 1 << 20
"""Maximum bytes of a ConfigMap or a Secret."""
_MAX_VARIABLE: Final = (1 << 17) - 128
"""Maximum bytes of an environment variable in Linux, without its name; a container with a longer one does not start."""


def plugin_objects(job: Mapping[str, Any], spec: JobSpec, controlled: Mapping[str, str]) -> Iterator[Json]:
    """Yield the objects that must exist before the pods; a Secret without keys gets new ones when it is created.

    The Secret is created once: not after `controlled`, which is `status.controlledResources`, names it.
    """
    plugins = spec.plugins
    if plugins.svc is not None:
        yield _service(job, plugins.svc)
        yield _hosts(job, spec)
        if not plugins.svc.disable_network_policy:
            yield _network_policy(job)
    if plugins.ray is not None:
        yield _head_service(job, plugins.ray)
    for i, volume in enumerate(spec.volumes):
        if volume.volume_claim is not None:
            metadata = owned_metadata(job, claim_name(job, i, volume))
            claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
            yield {**claim, "spec": volume.volume_claim}
    if plugins.ssh is not None and controlled.get(_SSH) != secret_name(job):
        yield _secret(job, spec, plugins.ssh)


def controlled_resources(job: Mapping[str, Any], spec: JobSpec) -> dict[str, str]:
    """Return `status.controlledResources` once the objects exist.

    Volcano has the name of the plugin for ssh, too. If it has run the Job before, its Secret has another name.
    """
    plugins = {f"plugin-{name}": name for name in spec.plugins.names}
    return plugins if spec.plugins.ssh is None else {**plugins, _SSH: secret_name(job)}


def config_map_name(job: Mapping[str, Any]) -> str:
    """Return the name of the ConfigMap with the host names."""
    return f"{job['metadata']['name']}-svc"


def secret_name(job: Mapping[str, Any]) -> str:
    """Return the name of the Secret with the keys."""
    return unique_name(job, "ssh")


def claim_name(job: Mapping[str, Any], index: int, volume: Volume) -> str:
    """Return the name of the claim of a volume."""
    return volume.volume_claim_name or unique_name(job, "volume", str(index))


def variable_prefix(task: Task) -> str:
    """Return the beginning of the names of variables about the hosts of a task."""
    return f"VC_{_key(task).upper()}"


def size_problem(job: Mapping[str, Any], spec: JobSpec) -> str:
    """Return why the host names of the Job are too many for a plugin, "" if they are not.

    Upper bounds: a Job may have 2**31 pods, whose names take gigabytes.
    """
    plugins = spec.plugins
    of_task = {task.name: number_of_hosts(task) * (max_host_length(job, task) + 1) for task in spec.tasks}
    count, total = sum(number_of_hosts(task) for task in spec.tasks), sum(of_task.values())
    named = f"the host names of {spec.replicas} pods exceed the size of"
    # The ConfigMap has each host name twice, in `TASK.host` and `VC_TASK_HOSTS`.
    if plugins.svc is not None and 2 * total > _MAX_OBJECT:
        return f"spec.plugins.svc: Too long: {named} a ConfigMap"
    if plugins.svc is not None and plugins.svc.inject_hosts_env and max(of_task.values()) > _MAX_VARIABLE:
        return f"spec.plugins.svc: Too long: {named} a variable: use --inject-hosts-env=false"
    # The configuration of ssh has each host name twice, and the part before its first dot, which is shorter.
    if plugins.ssh is not None and 3 * total + count * len(_ssh_host("", "", 65535)) > _MAX_OBJECT:
        return f"spec.plugins.ssh: Too long: {named} a Secret"
    if plugins.mpi is not None and of_task.get(plugins.mpi.worker, 0) > _MAX_VARIABLE:
        return f"spec.plugins.mpi: Too long: {named} a variable"
    if plugins.tensorflow is not None and total + count * len('"":65535') > _MAX_VARIABLE:
        return f"spec.plugins.tensorflow: Too long: {named} a variable"
    return ""


def _service(job: Mapping[str, Any], svc: Svc) -> Json:
    """Return the headless Service that gives pods their host names."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": owned_metadata(job, job["metadata"]["name"]),
        "spec": {
            "clusterIP": "None",
            "selector": _pod_labels(job),
            "publishNotReadyAddresses": svc.publish_not_ready_addresses,
        },
    }


def _hosts(job: Mapping[str, Any], spec: JobSpec) -> Json:
    """Return the ConfigMap with the host names of each task."""
    data: dict[str, str] = {}
    for task in spec.tasks:
        names, prefix = list(host_names(job, task)), variable_prefix(task)
        data[f"{_key(task)}.host"] = "\n".join(names)
        data[f"{prefix}_HOSTS"] = ",".join(names)
        data[f"{prefix}_NUM"] = str(len(names))
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": owned_metadata(job, config_map_name(job)),
        "data": data,
    }


def _network_policy(job: Mapping[str, Any]) -> Json:
    """Return the policy that the pods of the Job accept connections of each other only, as in Volcano.

    Clients of a Ray cluster in other pods, and Prometheus, need `--disable-network-policy`.
    """
    pods = {"matchLabels": _pod_labels(job)}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": owned_metadata(job, unique_name(job)),
        "spec": {"podSelector": pods, "ingress": [{"from": [{"podSelector": pods}]}], "policyTypes": ["Ingress"]},
    }


def _head_service(job: Mapping[str, Any], ray: Ray) -> Json:
    """Return the Service with which clients reach the head of a Ray cluster."""
    ports = ((GCS, ray.port), (DASHBOARD, ray.dashboard_port), (CLIENT, ray.client_port))
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": owned_metadata(job, f"{job['metadata']['name']}-head-svc"),
        "spec": {
            "selector": {**_pod_labels(job), TASK: ray.head},
            "ports": [{"name": name, "port": port, "targetPort": port, "protocol": "TCP"} for name, port in ports],
        },
    }


def _secret(job: Mapping[str, Any], spec: JobSpec, ssh: Ssh) -> Json:
    """Return the Secret with the configuration of ssh, and with the keys of the arguments."""
    config = ["StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"]
    for task in spec.tasks:
        for i in range(number_of_hosts(task)):
            name = host_name(job, task, i)
            config.append(_ssh_host(name.split(".", 1)[0], name, ssh.ssh_port))
    keys = key_files(ssh.ssh_private_key, ssh.ssh_public_key) if ssh.ssh_private_key else {}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": owned_metadata(job, secret_name(job)),
        "data": secret_data({CONFIG: "".join(config), **keys}),
    }


def secret_data(files: Mapping[str, str]) -> dict[str, str]:
    """Return the data of a Secret with these files."""
    return {name: b64encode(text.encode()).decode() for name, text in files.items()}


def _ssh_host(short: str, name: str, port: int) -> str:
    """Return the lines of a host; MPI_HOST has its full name, which needs the port, too."""
    return f"Host {short} {name}\n  HostName {name}\n  Port {port}\n"


def _pod_labels(job: Mapping[str, Any]) -> dict[str, str]:
    meta = job["metadata"]
    return {JOB_NAME: meta["name"], JOB_NAMESPACE: meta["namespace"]}


def _key(task: Task) -> str:
    return task.name.replace("-", "_")
