"""The parameter ``embedding`` of estimators: the name of a distance between densities, or a transformer of sets."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator, clone

from dkdist._base.parameter_checks import check_choice
from dkdist.embeddings.divergence import DivergenceEmbedding
from dkdist.embeddings.divergences import DIVERGENCES, canonical_name
from dkdist.embeddings.l2 import L2Embedding


def make_embedding(embedding: Any) -> Any:
    """Return an unfitted transformer of sets, for the name of a divergence, "l2" or a transformer, which is cloned."""
    if isinstance(embedding, str):
        name = check_choice("embedding", canonical_name(embedding), (*DIVERGENCES, "l2"))
        return L2Embedding() if name == "l2" else DivergenceEmbedding(name)
    if not (isinstance(embedding, BaseEstimator) and hasattr(embedding, "transform")):
        raise TypeError(
            f"embedding must be one of {', '.join(map(repr, (*DIVERGENCES, 'l2')))}, or a transformer of sets such as "
            f"MeanEmbedding(); got {embedding!r:.200}."
        )
    return clone(embedding)
