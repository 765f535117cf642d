"""Hosts of a small network, simulated by network namespaces with their own addresses."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .programs import environment


def ip(arguments: str) -> str:
    """Run the system program ``ip`` and return its output."""
    result = subprocess.run(
        ["ip", *arguments.split()], check=True, capture_output=True, text=True, env=environment()
    )
    return result.stdout


@contextmanager
def network(addresses: Sequence[str]) -> Iterator[dict[str, list[str]]]:
    """Yield, for each address, the command prefix that runs a command on its host."""
    switch = f"dkdist-{os.getpid()}"
    names = {address: f"{switch}-{i}" for i, address in enumerate(addresses)}
    try:
        ip(f"netns add {switch}")
        ip(f"-n {switch} link add switch type bridge")
        ip(f"-n {switch} link set switch up")
        for i, (address, name) in enumerate(names.items()):
            ip(f"netns add {name}")
            ip(f"link add eth0 netns {name} type veth peer name port{i} netns {switch}")
            ip(f"-n {switch} link set port{i} master switch up")
            ip(f"-n {name} addr add {address}/24 dev eth0")
            ip(f"-n {name} link set eth0 up")
            ip(f"-n {name} link set lo up")
        yield {address: ["ip", "netns", "exec", name] for address, name in names.items()}
    finally:
        existing = ip("netns list").split()
        for name in [*names.values(), switch]:
            if name in existing:
                for process in ip(f"netns pids {name}").split():
                    os.kill(int(process), signal.SIGKILL)
                ip(f"netns delete {name}")
