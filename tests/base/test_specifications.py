"""What specifications share: tables are drawn once, the latest are kept, and plain numbers travel in their place."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

from dkdist._base.params import Specification, Tables


@dataclass(frozen=True)
class Numbers(Specification["Drawn"]):
    _kept = 2

    value: int

    def _tables(self) -> Drawn:
        return Drawn(self)


class Drawn(Tables[Numbers]):
    def __init__(self, spec: Numbers) -> None:
        self.spec = spec
        self.table = [spec.value] * 100_000


@dataclass(frozen=True)
class Others(Numbers):
    _kept = 0


def test_tables_are_drawn_once_and_the_latest_are_kept() -> None:
    first = Numbers(1).draw()
    assert Numbers(1).draw() is first
    assert Numbers(2).draw() is not first
    assert Numbers(1).draw() is first
    Numbers(3).draw()
    Numbers(4).draw()
    assert Numbers(1).draw() is not first
    assert Others(1).draw() is not Others(1).draw()


def test_plain_numbers_travel() -> None:
    drawn = Numbers(5).draw()
    sent = pickle.dumps(drawn)
    assert len(sent) < 300
    assert pickle.loads(sent) is drawn
