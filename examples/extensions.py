"""Add a custom embedding, distance, kernel and file reader, and use them on a store and on a cluster."""

import tempfile
from dataclasses import dataclass

import dask
import numpy as np
from dask.distributed import Client

import dkdist as dk
from dkdist._base.embedding import SetEmbedding
from dkdist._base.params import Params


@dataclass(frozen=True)
class RangeParams(Params):
    n_dims: int
    n_features: int
    domain: None = None

    def embed(self, sets):
        return np.array([np.ptp(x, axis=0) for x in sets], np.float32)


class RangeEmbedding(SetEmbedding):
    def _fit(self, sets, summary):
        return RangeParams(n_dims=sets.n_dims, n_features=sets.n_dims)


def cauchy_frequencies(rng, normals):
    return normals * np.sqrt(2 * rng.exponential(size=(len(normals), 1)))


class TextReader:  # a package registers it in pyproject.toml: [project.entry-points."dkdist.readers"] txt = "..."
    def read(self, path):
        return [np.loadtxt(path)]


def use(store):
    ranges = RangeEmbedding().fit_transform(store).compute()
    gaps = dk.distance_matrix(store, distance="mean-gap")
    rows = dk.MeanEmbedding(500, sigma=1.0, kernel="cauchy", random_state=0).fit_transform(store)
    print(ranges[:, 1].tolist(), gaps[0].tolist(), np.round((rows[0] @ rows[1]).compute(), 1))


if __name__ == "__main__":
    dk.register_distance("mean-gap", dk.pairwise(lambda x, y: float(abs(x.mean(0) - y.mean(0)).max())))
    cauchy = dk.Kernel("cauchy", lambda r: 1 / (1 + r**2), sample_frequencies=cauchy_frequencies)
    with tempfile.TemporaryDirectory() as folder, Client(n_workers=2, threads_per_worker=1) as client:
        client.run(dk.register_kernel, cauchy)  # workers look up kernels by name; distances are sent to them
        dk.register_kernel(cauchy)
        files = [f"{folder}/{i}.txt" for i in range(6)]
        for i in range(6):
            np.savetxt(files[i], [[i, j] for j in range(3 + i)])
        use(store := dk.import_sets(f"{folder}/sets.zarr", files, read=TextReader()))
        with dask.config.set(scheduler="threads"):
            use(store)
