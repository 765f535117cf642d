"""A single-host Slurm with munge, controller and daemon, in its own folder and without systemd."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .programs import Programs, until

CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,batch_sched_delay=0
SlurmdParameters=config_overrides
KillWait=1
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=4000
PartitionName=all Nodes={host} Default=YES State=UP
"""


def _free_ports(n: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [server.getsockname()[1] for server in sockets]
    for server in sockets:
        server.close()
    return ports


@contextmanager
def slurm(folder: Path) -> Iterator[str]:
    """Run Slurm inside the ``with`` and yield its ``SLURM_CONF``; jobs end with it."""
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(128))
    configuration = folder / "slurm.conf"
    host, ports = socket.gethostname().split(".")[0], _free_ports(2)
    configuration.write_text(CONFIGURATION.format(host=host, ports=ports, folder=folder))
    files = [f"--{name}={folder}/munge.{name.split('-')[0]}" for name in ("socket", "pid-file", "seed-file")]
    with Programs(folder, SLURM_CONF=str(configuration)) as run:
        run.start(
            ["munged", "--foreground", "--force", f"--key-file={key}", *files],
            expected_output="Created socket",
        )
        run.start(["slurmctld", "-D"])
        run.start(["slurmd", "-D"])
        until(lambda: "idle" in _run_output(run, "sinfo", "--noheader"), "Slurm to have an idle host")
        try:
            yield str(configuration)
        finally:
            _run_output(run, "scancel", "--partition=all")
            until(lambda: not _run_output(run, "squeue", "--noheader"), "the jobs of Slurm to end")


def is_finished(run: Programs, job: str) -> bool:
    """Whether a submitted job is finished."""
    return job not in _run_output(run, "squeue", "--noheader", "--format=%i").split()


def _run_output(run: Programs, *command: str) -> str:
    result = subprocess.run(command, capture_output=True, text=True, env=run.environment)
    return result.stdout.strip()
