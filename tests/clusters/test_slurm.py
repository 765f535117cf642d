"""The recipes for Slurm, on a Slurm of one host that the test starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import coefficients, fit_alone
from .programs import Programs, command, needs, until
from .recipes import blocks
from .slurm import ended, slurm

pytestmark = pytest.mark.network


@pytest.fixture(scope="module")
def configuration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    needs("munged", "slurmctld", "slurmd", "srun", "sbatch", "openssl", root=True)
    with slurm(tmp_path_factory.mktemp("slurm")) as result:
        yield result


def test_one_allocation(configuration: str, shared: Path) -> None:
    block = blocks("Slurm")[0]
    with Programs(shared, SLURM_CONF=configuration) as run:
        run.finish(command(block.language, block.text))
        text = shared / "slurm-1.out"
        until(lambda: ended(run, "1"), "the job to end")
    assert "running on tls://" in text.read_text(), text.read_text()
    assert not list(shared.glob("cluster-1-*"))  # no key stays behind
    assert coefficients(shared) == fit_alone(shared, block)


def test_a_job_for_each_worker(configuration: str, shared: Path, alone: bytes) -> None:
    block = blocks("Slurm")[1]
    (shared / "recipe.py").write_text(block.text)
    with Programs(shared, SLURM_CONF=configuration) as run:
        run.finish(["python", "recipe.py"])
    assert coefficients(shared) == alone
