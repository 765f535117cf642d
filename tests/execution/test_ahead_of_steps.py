"""Pieces of a step that other threads of a run make before it comes to them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dkdist.execution.own_threads import PIECES, Ended, fold_items, hands

LONG = 30.0  # seconds, after which a wait has failed


def here() -> int:
    return threading.get_ident()


def folded(step: Callable[[Any, int], Any], n: int, n_threads: int, n_cores: int = 2) -> Any:
    return fold_items(
        lambda j: j, step, [], n, window=4, n_threads=n_threads, n_cores=n_cores, told=lambda *_: None
    )


def pieces(make: Callable[[int], Any], n: int) -> Any:
    ahead = hands()
    assert ahead is not None
    return ahead(make, n)


@pytest.mark.parametrize("n_threads", [2, 3, 5])
def test_every_piece_is_there_in_its_turn_or_left_to_the_step(n_threads: int) -> None:
    made = np.zeros((7, 40), int)

    def step(state: list[int], item: int) -> list[int]:
        def make(i: int) -> tuple[int, int]:
            made[item, i] += 1
            return item, i

        for i, piece in enumerate(pieces(make, 40)):
            assert piece in (None, (item, i))
            assert made[item, i] == (piece is not None)
            assert made[item].sum() <= i + 1 + PIECES
            state = [*state, i]
        return state

    assert folded(step, 7, n_threads) == list(range(40)) * 7


def test_a_free_thread_makes_what_comes_later() -> None:
    asked = threading.Event()

    def step(state: list[int], item: int) -> list[int]:
        def make(i: int) -> int:
            assert here() != stepping
            if i == PIECES:
                asked.set()
            return 10 * i

        stepping, found = here(), []
        for piece in pieces(make, PIECES + 1):
            found.append(piece)
            assert asked.wait(LONG)
        return found

    assert folded(step, 1, 2) == [None, *(10 * i for i in range(1, PIECES + 1))]


def test_a_step_that_comes_to_a_piece_in_the_making_makes_others_meanwhile() -> None:
    begun, other_made = threading.Event(), threading.Event()

    def step(state: list[int], item: int) -> list[int]:
        def make(i: int) -> bool:
            mine = here() == stepping
            if mine:
                other_made.set()
            else:
                begun.set()
                assert other_made.wait(LONG)
            return mine

        stepping, found = here(), []
        for piece in pieces(make, 3):
            found.append(piece)
            assert begun.wait(LONG)
        return found

    assert folded(step, 1, 2) == [None, False, True]


def test_a_piece_that_cannot_be_made_ends_the_run_and_the_wait_for_it() -> None:
    begun, waited = threading.Event(), threading.Event()
    ended = []

    def step(state: list[int], item: int) -> list[int]:
        def make(i: int) -> None:
            begun.set()
            assert waited.wait(LONG)
            raise LookupError(i)

        try:
            for i, _ in enumerate(pieces(make, 2)):
                assert begun.wait(LONG)
                if i == 0:
                    threading.Timer(0.01, waited.set).start()
        except Ended:
            ended.append(True)
            raise
        return state

    with pytest.raises(LookupError):
        folded(step, 3, 2)
    assert ended == [True]


def test_nobody_makes_pieces_where_a_step_is_alone() -> None:
    assert hands() is None
    asked = []

    def step(state: list[int], item: int) -> list[int]:
        asked.append(hands())
        return state

    folded(step, 2, 1)
    folded(step, 2, 3, n_cores=1)
    assert asked == [None] * 4
