"""The recipes of docs/clusters.md give results identical to a run without a cluster."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .conftest import coefficients, fit_alone
from .hosts import network
from .programs import Programs, command, needs
from .recipes import Block, blocks

pytestmark = pytest.mark.network


def as_script(folder: Path, block: Block) -> list[str]:
    """Write a block to a file, since worker processes import it, and return its command."""
    (folder / "recipe.py").write_text(block.text)
    return [sys.executable, "recipe.py"]


@pytest.mark.parametrize("heading", ["Processes on one machine", "Adaptive scaling"])
def test_recipe_on_one_machine(heading: str, shared: Path, alone: bytes) -> None:
    (block,) = blocks(heading)
    with Programs(shared) as run:
        run.finish(as_script(shared, block))
    assert coefficients(shared) == alone


def run_on_hosts(folder: Path, recipe: list[Block]) -> None:
    """Run the blocks of a recipe; the last one is the client, and ``dask`` blocks run until it ends."""
    *servers, client = recipe
    addresses = sorted({host for block in recipe for host in block.hosts})
    with network(addresses) as prefixes, Programs(folder) as run:
        for block in servers:
            for host in block.hosts:
                arguments = [*prefixes[host], *command(block.language, block.text)]
                if "dask worker" in block.text:
                    run.start(arguments)
                elif "dask scheduler" in block.text:
                    run.start(arguments, expected_output="Scheduler at")
                else:
                    run.finish(arguments)
        run.finish([*prefixes[client.hosts[0]], *command(client.language, client.text)])


def test_recipe_on_several_hosts(shared: Path, alone: bytes) -> None:
    needs("ip", root=True)
    run_on_hosts(shared, blocks("Several hosts"))
    assert coefficients(shared) == alone


def test_encrypted_recipe_on_several_hosts(shared: Path) -> None:
    needs("ip", "openssl", root=True)
    recipe = blocks("Several hosts with encrypted connections")
    run_on_hosts(shared, recipe)
    assert coefficients(shared) == fit_alone(shared, recipe[-1])
    assert not any((shared / name).stat().st_mode & 0o077 for name in ("ca.key", "dask.key"))
