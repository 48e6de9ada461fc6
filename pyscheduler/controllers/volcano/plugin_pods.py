"""Variables, ports, mounts and commands that the plugins of a Volcano Job add to its pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from pyscheduler.controllers.volcano.job_names import (
    Json,
    host_name,
    host_names,
    pod_name,
)
from pyscheduler.controllers.volcano.job_plugins import SSH_PATH, Mpi, PyTorch, Ray, Ssh, Svc, TensorFlow
from pyscheduler.controllers.volcano.job_spec import JobSpec, Task
from pyscheduler.controllers.volcano.plugin_objects import (
    CLIENT,
    DASHBOARD,
    GCS,
    claim_name,
    config_map_name,
    secret_name,
    variable_prefix,
)
from pyscheduler.controllers.volcano.ssh_keys import AUTHORIZED_KEYS, CONFIG, PRIVATE_KEY, PUBLIC_KEY

HOSTS_PATH: Final = "/etc/volcano"
_SSH_FOLDER: Final = ".ssh"
_WAIT_FOR_MASTER: Final = "wait-for-master"


def add_plugins(pod_spec: Json, job: Mapping[str, Any], spec: JobSpec, task: Task, index: int) -> None:
    """Add to the spec of a pod what the plugins and the volumes of its Job have for it."""
    plugins = spec.plugins
    if plugins.env is not None:
        _add_env(_all_containers(pod_spec), {name: str(index) for name in ("VK_TASK_INDEX", "VC_TASK_INDEX")})
    if plugins.svc is not None:
        _add_hosts(pod_spec, job, spec, plugins.svc, pod_name(job, task, index))
    if plugins.ssh is not None:
        _add_keys(pod_spec, job, plugins.ssh)
    if plugins.mpi is not None:
        _add_mpi(pod_spec, job, spec, task, plugins.mpi)
    if plugins.pytorch is not None:
        _add_pytorch(pod_spec, job, spec, task, index, plugins.pytorch)
    if plugins.tensorflow is not None:
        _add_tensorflow(pod_spec, job, spec, task, index, plugins.tensorflow)
    if plugins.ray is not None:
        _add_ray(pod_spec, job, spec, task, plugins.ray)
    for i, volume in enumerate(spec.volumes):
        source = {"persistentVolumeClaim": {"claimName": claim_name(job, i, volume)}}
        _add_volume(pod_spec, _containers(pod_spec), f"job-volume-{i}", source, {"mountPath": volume.mount_path})


def _add_hosts(pod_spec: Json, job: Mapping[str, Any], spec: JobSpec, svc: Svc, name: str) -> None:
    config_map, containers = config_map_name(job), _all_containers(pod_spec)
    pod_spec["hostname"] = pod_spec.get("hostname") or name
    pod_spec["subdomain"] = pod_spec.get("subdomain") or job["metadata"]["name"]
    if svc.inject_hosts_env:
        keys = [f"{variable_prefix(task)}_{suffix}" for task in spec.tasks for suffix in ("HOSTS", "NUM")]
        variables = [{"name": key, "valueFrom": {"configMapKeyRef": {"name": config_map, "key": key}}} for key in keys]
        for container in containers:
            _extend(container, "env", variables)
    _add_volume(pod_spec, containers, config_map, {"configMap": {"name": config_map}}, {"mountPath": HOSTS_PATH})


def _add_keys(pod_spec: Json, job: Mapping[str, Any], ssh: Ssh) -> None:
    """Mount the keys. The folder of a volume is writable for all, which sshd rejects; one below it is not."""
    path, files = ssh.ssh_key_file_path, (PRIVATE_KEY, PUBLIC_KEY, AUTHORIZED_KEYS, CONFIG)
    secret = {
        "secretName": secret_name(job),
        "items": [{"key": file, "path": f"{_SSH_FOLDER}/{file}"} for file in files],
        # Files belong to root. ssh requires 0600 of the owner's key only, and other users could not read that.
        "defaultMode": 0o600 if path == SSH_PATH else 0o644,
    }
    mount = {"mountPath": path, "subPath": _SSH_FOLDER}
    _add_volume(pod_spec, _all_containers(pod_spec), f"{job['metadata']['name']}-ssh", {"secret": secret}, mount)


def _add_mpi(pod_spec: Json, job: Mapping[str, Any], spec: JobSpec, task: Task, mpi: Mpi) -> None:
    containers = _all_containers(pod_spec)
    _add_port(containers, "mpijob-port", mpi.port)
    workers = spec.task(mpi.worker)
    if task.name == mpi.master and workers is not None:
        _add_env(containers, {"MPI_HOST": ",".join(host_names(job, workers))})


def _add_pytorch(
    pod_spec: Json, job: Mapping[str, Any], spec: JobSpec, task: Task, index: int, pytorch: PyTorch
) -> None:
    """Add address, size and rank. Ranks of workers follow those of the master, which is one pod as a rule."""
    master, worker = spec.task(pytorch.master), spec.task(pytorch.worker)
    if master is None:
        return
    address = host_name(job, master, 0)
    # By name, since one task may have both roles: it counts once.
    replicas = {each.name: each.replicas for each in (master, worker) if each is not None}
    is_worker = task.name == pytorch.worker
    variables = {
        "MASTER_ADDR": address,
        "MASTER_PORT": str(pytorch.port),
        "WORLD_SIZE": str(sum(replicas.values())),
    }
    if task.name == master.name:
        variables["RANK"] = str(index)
    elif is_worker:
        variables["RANK"] = str(master.replicas + index)
        if pytorch.wait_master_enabled:
            _add_wait_for_master(pod_spec, address, pytorch)
    _add_port(_containers(pod_spec), "pytorchjob-port", pytorch.port)
    _add_env(_containers(pod_spec), variables)


def _add_wait_for_master(pod_spec: Json, address: str, pytorch: PyTorch) -> None:
    if any(each.get("name") == _WAIT_FOR_MASTER for each in pod_spec.get("initContainers") or ()):
        return
    seconds, port = pytorch.wait_master_timeout, pytorch.port
    script = f"""\
deadline=$(($(date +%s) + {seconds}))
until nc -z {address} {port} 2>/dev/null || (: >/dev/tcp/{address}/{port}) 2>/dev/null; do
  if [ "$(date +%s)" -ge "$deadline" ]; then
    echo "{address}:{port} was not reachable in {seconds} seconds"
    exit 1
  fi
  sleep 2
done
"""
    container = {"name": _WAIT_FOR_MASTER, "image": pytorch.wait_master_image, "command": ["sh", "-c", script]}
    _extend(pod_spec, "initContainers", [container])


def _add_tensorflow(
    pod_spec: Json, job: Mapping[str, Any], spec: JobSpec, task: Task, index: int, tensorflow: TensorFlow
) -> None:
    """Add TF_CONFIG. A single pod has none, so that TensorFlow does not wait for others."""
    if len(spec.tasks) == 1 and task.replicas == 1:
        return
    # Reversed: a task with several roles has the first of them as its type.
    names = {getattr(tensorflow, role): role for role in reversed(tensorflow.roles)}
    hosts = {
        role: [f"{host}:{tensorflow.port}" for host in host_names(job, found)]
        for role in tensorflow.roles
        if (found := spec.task(getattr(tensorflow, role))) is not None
    }
    config = {
        "cluster": {role: found for role, found in hosts.items() if found},
        "task": {"type": names.get(task.name, task.name), "index": index},
    }
    _add_env(_containers(pod_spec), {"TF_CONFIG": msgspec.json.encode(config).decode()})


def _add_ray(pod_spec: Json, job: Mapping[str, Any], spec: JobSpec, task: Task, ray: Ray) -> None:
    head = spec.task(ray.head)
    for container in _containers(pod_spec):
        name = container.get("name")
        if task.name == ray.head and name == ray.head_container:
            for port_name, port in ((GCS, ray.port), (DASHBOARD, ray.dashboard_port), (CLIENT, ray.client_port)):
                _add_port([container], port_name, port)
            ports = (
                f"--port={ray.port} --dashboard-port={ray.dashboard_port} --ray-client-server-port={ray.client_port}"
            )
            container["command"] = ["sh", "-c", f"ray start --head --block --dashboard-host=0.0.0.0 {ports}"]
        elif task.name == ray.worker and name == ray.worker_container and head is not None:
            address = f"{host_name(job, head, 0)}:{ray.port}"
            container["command"] = ["sh", "-c", f"ray start --block --address={address}"]


def _add_env(containers: Iterable[Json], variables: Mapping[str, str]) -> None:
    for container in containers:
        _extend(container, "env", [{"name": name, "value": value} for name, value in variables.items()])


def _add_port(containers: Iterable[Json], name: str, port: int) -> None:
    """Add a port to the containers that do not have it; without its name where another one has that."""
    for container in containers:
        ports = container.get("ports") or ()
        if all(each.get("containerPort") != port for each in ports):
            is_taken = any(each.get("name") == name for each in ports)
            _extend(
                container, "ports", [{"containerPort": port} if is_taken else {"name": name, "containerPort": port}]
            )


def _add_volume(pod_spec: Json, containers: Iterable[Json], name: str, source: Json, mount: Json) -> None:
    _extend(pod_spec, "volumes", [{"name": name, **source}])
    for container in containers:
        _extend(container, "volumeMounts", [{"name": name, **mount}])


def _extend(obj: Json, name: str, items: list[Json]) -> None:
    """Append to a list of a template, which may be null."""
    obj[name] = [*(obj.get(name) or ()), *items]


def _containers(pod_spec: Json) -> list[Json]:
    return list(pod_spec.get("containers") or ())


def _all_containers(pod_spec: Json) -> list[Json]:
    return [*(pod_spec.get("initContainers") or ()), *_containers(pod_spec)]
