"""A fitted model as what is explained: how it takes sets, and the function of sets that it predicts by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dkdist.base.embedding import known_sets
from dkdist.base.inputs import Sets
from dkdist.explaining.set_function import SetFunction
from dkdist.loops.array_types import F64
from dkdist.scaling.mapped_embedding_spec import MappedEmbeddingSpec


@dataclass(frozen=True)
class Subject:
    """What a model predicts: ``scale`` (k,) times the function plus ``shift`` (k,).

    ``first`` is the estimator that sets come to, and ``scalers`` change them on their way to the function.
    ``reference`` (k,) is the prediction that contributions are counted from, and ``single`` says whether predictions
    have no axis of outputs; ``outputs`` are the labels of that axis. ``background`` are sets to compare with, if the
    model keeps some.
    """

    function: SetFunction
    first: Any
    scalers: tuple[Any, ...]
    reference: F64
    scale: F64
    shift: F64
    single: bool
    outputs: Sequence[Any]
    background: Sets | None = None

    @property
    def n_outputs(self) -> int:
        """The number k of functions."""
        return len(self.scale)

    def taken(self, X: Any) -> Sets:
        """The sets as the function takes them; refused by name if the model would refuse them."""
        text = getattr(self.first, "_takes_text", False)
        sets = known_sets(self.first, X, text=text)
        for scaler in self.scalers:
            sets = scaler.transform(sets)
        return sets

    @property
    def scales_each_set(self) -> bool:
        """Whether a set is scaled by its own points."""
        return any(
            isinstance(spec, MappedEmbeddingSpec) and spec.of_each_set
            for spec in (term.spec for term in self.function.terms)
        )

    def in_function(self, prediction: F64) -> F64:
        """A prediction (k,) in units of the function."""
        return (prediction - self.shift) / self.scale

    def told(self, found: F64) -> F64:
        """Contributions (.., k) of the function in units of predictions, and of their shape."""
        scaled = found * self.scale
        return scaled[..., 0] if self.single else scaled
