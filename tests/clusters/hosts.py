"""Hosts of a small network, made of network namespaces of this machine: own addresses, a switch between them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .programs import environment


def ip(arguments: str) -> str:
    """Run the system's program of that name."""
    done = subprocess.run(
        ["ip", *arguments.split()], check=True, capture_output=True, text=True, env=environment()
    )
    return done.stdout


@contextmanager
def network(addresses: Sequence[str]) -> Iterator[dict[str, list[str]]]:
    """For each address the words before a command that let it run on the host of that address."""
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
        there = ip("netns list").split()
        for name in [*names.values(), switch]:
            if name in there:
                for process in ip(f"netns pids {name}").split():
                    os.kill(int(process), signal.SIGKILL)
                ip(f"netns delete {name}")
