"""A Slurm of one host: munge, the controller and the host's daemon, from a folder of their own and without systemd."""

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
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@contextmanager
def slurm(folder: Path) -> Iterator[str]:
    """The ``SLURM_CONF`` of a Slurm that runs inside the ``with``; its jobs end with it."""
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
        run.start(["munged", "--foreground", "--force", f"--key-file={key}", *files], says="Created socket")
        run.start(["slurmctld", "-D"])
        run.start(["slurmd", "-D"])
        until(lambda: "idle" in _says(run, "sinfo", "--noheader"), "Slurm to have an idle host")
        try:
            yield str(configuration)
        finally:
            _says(run, "scancel", "--partition=all")
            until(lambda: not _says(run, "squeue", "--noheader"), "the jobs of Slurm to end")


def ended(run: Programs, job: str) -> bool:
    """Whether a job that was submitted is over."""
    return job not in _says(run, "squeue", "--noheader", "--format=%i").split()


def _says(run: Programs, *command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env=run.environment)
    return done.stdout.strip()
