"""Parameters: fitted tables are built once, the most recent are cached, and only parameters are pickled."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

from dkdist._base.params import FittedParams, Params


@dataclass(frozen=True)
class ExampleParams(Params["ExampleFittedParams"]):
    _cache_size = 2

    value: int

    def _build(self) -> ExampleFittedParams:
        return ExampleFittedParams(self)


class ExampleFittedParams(FittedParams[ExampleParams]):
    def __init__(self, spec: ExampleParams) -> None:
        self.spec = spec
        self.table = [spec.value] * 100_000


@dataclass(frozen=True)
class UncachedParams(ExampleParams):
    _cache_size = 0


def test_materialize_caches_recent_tables() -> None:
    first = ExampleParams(1).materialize()
    assert ExampleParams(1).materialize() is first
    assert ExampleParams(2).materialize() is not first
    assert ExampleParams(1).materialize() is first
    ExampleParams(3).materialize()
    ExampleParams(4).materialize()
    assert ExampleParams(1).materialize() is not first
    assert UncachedParams(1).materialize() is not UncachedParams(1).materialize()


def test_fitted_params_are_pickled_by_parameters() -> None:
    fitted = ExampleParams(5).materialize()
    sent = pickle.dumps(fitted)
    assert len(sent) < 300
    assert pickle.loads(sent) is fitted
