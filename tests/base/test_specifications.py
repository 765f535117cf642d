"""What specifications share: tables are drawn once, the latest are kept, and plain numbers travel in their place."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

from dkdist._base.params import FittedParams, Params


@dataclass(frozen=True)
class Numbers(Params["Drawn"]):
    _cache_size = 2

    value: int

    def _build(self) -> Drawn:
        return Drawn(self)


class Drawn(FittedParams[Numbers]):
    def __init__(self, spec: Numbers) -> None:
        self.spec = spec
        self.table = [spec.value] * 100_000


@dataclass(frozen=True)
class Others(Numbers):
    _cache_size = 0


def test_tables_are_drawn_once_and_the_latest_are_kept() -> None:
    first = Numbers(1).materialize()
    assert Numbers(1).materialize() is first
    assert Numbers(2).materialize() is not first
    assert Numbers(1).materialize() is first
    Numbers(3).materialize()
    Numbers(4).materialize()
    assert Numbers(1).materialize() is not first
    assert Others(1).materialize() is not Others(1).materialize()


def test_plain_numbers_travel() -> None:
    fitted = Numbers(5).materialize()
    sent = pickle.dumps(fitted)
    assert len(sent) < 300
    assert pickle.loads(sent) is fitted
