"""The Slurm recipes, on a single-host Slurm that the test starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import coefficients, fit_alone
from .programs import Programs, command, needs, until
from .recipes import blocks
from .slurm import is_finished, slurm

pytestmark = pytest.mark.network


@pytest.fixture(scope="module")
def configuration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    needs("munged", "slurmctld", "slurmd", "srun", "sbatch", "openssl", root=True)
    with slurm(tmp_path_factory.mktemp("slurm")) as result:
        yield result


def test_recipe_with_one_allocation(configuration: str, shared: Path) -> None:
    block = blocks("Slurm")[0]
    with Programs(shared, SLURM_CONF=configuration) as run:
        run.finish(command(block.language, block.text))
        log = shared / "slurm-1.out"
        until(lambda: is_finished(run, "1"), "the job to end")
    assert "running on tls://" in log.read_text(), log.read_text()
    assert not list(shared.glob("cluster-1-*"))  # keys are deleted
    assert coefficients(shared) == fit_alone(shared, block)


def test_recipe_with_one_job_per_worker(configuration: str, shared: Path, alone: bytes) -> None:
    block = blocks("Slurm")[1]
    (shared / "recipe.py").write_text(block.text)
    with Programs(shared, SLURM_CONF=configuration) as run:
        run.finish(["python", "recipe.py"])
    assert coefficients(shared) == alone
