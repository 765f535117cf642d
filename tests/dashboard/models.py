"""The pipelines that the tests of the dashboard run."""

from __future__ import annotations

from distributed import Client
from sklearn.pipeline import make_pipeline

import dkdist as dk

N_SETS, BLOCK_SETS = 300, 20
N_BLOCKS = 15


def pipeline(learner, n_features=60):
    embedding = dk.DivergenceEmbedding(n_basis=6, domain=(-1, 2))
    return make_pipeline(embedding, dk.RandomFourierFeatures(n_features, random_state=0), learner)


def sgd(n_features=60, **options):
    return pipeline(dk.IncrementalSGDClassifier(random_state=0, **options), n_features)


def ridge(**options):
    return pipeline(dk.IncrementalRidgeClassifier(random_state=0, **options))


def local_client(n_workers=1, threads_per_worker=1):
    """Return a client of a cluster in this process, without a dashboard or a fixed port."""
    return Client(
        processes=False, n_workers=n_workers, threads_per_worker=threads_per_worker,
        dashboard_address="127.0.0.1:0", scheduler_kwargs={"dashboard": False},
    )  # fmt: skip
