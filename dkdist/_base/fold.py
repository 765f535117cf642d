"""`fold`: an ordered fold over the blocks of any collection, with bounded memory."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from os import PathLike
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dkdist._base.inputs import block_views, check_sets
from dkdist._base.parameter_checks import check_int, is_literal
from dkdist._numba.arrays import I64
from dkdist._runtime.blocks import Blocks, Job, local_blocks, max_block_sets, source_blocks
from dkdist._runtime.collection_blocks import collection_blocks
from dkdist._runtime.fold_checkpoint import FoldCheckpoint
from dkdist._runtime.map_reduce import fold as fold_jobs
from dkdist._runtime.map_reduce import fold_window
from dkdist._runtime.run import plan_blocks
from dkdist._utils.validation import check_verbose
from dkdist.io.lazy_sets import LazySets

State = TypeVar("State")


def fold(
    data: Any,
    step: Callable[[State, Any], State],
    state: State,
    *,
    window: int | str = "auto",
    order: ArrayLike | np.random.Generator | None = None,
    checkpoint: str | PathLike[str] | None = None,
    verbose: bool = False,
) -> State:
    """Call ``state = step(state, block)`` for each block in order, with a bounded number of blocks in memory.

    Blocks are computed in parallel, on threads or on the workers of the active Dask client. Steps run one after another
    where the blocks are. Dask alone would compute all blocks while they wait for a slow step.

    Parameters
    ----------
    data : dask array, bag, DataFrame or list of Delayed; ndarray; SampleSets, SetStore or what `as_sets` accepts
        Blocks are the chunks of a dask array along its first axis (other axes are joined; lengths may be unknown),
        ranges of up to 1,024 rows of an ndarray, partitions of a bag or DataFrame, and results of `Delayed` objects and
        futures. Blocks of sets are `SampleSets`: up to 1,024 sets, or ``block_sets`` of `open_sets`. Dask and NumPy
        arrays of sets give blocks of the array; pass `as_sets` of them for blocks of sets.
    step : callable
        Function ``step(state, block) -> state``. It may modify its state and return it, but not the block. On a cluster
        it must be picklable.
    state : object
        Initial state, such as 0, an array, a dict or an estimator with ``partial_fit``. It is copied by
        `copy.deepcopy`, not modified. On a cluster it must be picklable.
    window : int or "auto", default="auto"
        Maximum number of blocks that are computed or wait for their step, over all workers. "auto" is the number of
        threads plus 2 (at least 4), and more for small blocks on a cluster.
    order : array-like of int, numpy.random.Generator or None, default=None
        Numbers of the blocks in the order of their steps; blocks may be repeated or omitted. A generator draws a random
        permutation. None is the order of storage.
    checkpoint : path or None, default=None
        Directory in which the state is saved every 128 blocks. The same call resumes an interrupted run with the same
        bits; after a finished run it returns the saved state. The state must consist of NumPy arrays of numbers or
        text, numbers, strings, None, and lists, tuples and dicts with string keys of them: files are never unpickled.
    verbose : bool, default=False
        Show the plan and a progress line.

    Returns
    -------
    state : object
        The last state; a copy of ``state`` if there are no blocks.

    Raises
    ------
    ValueError
        For data of another kind, an invalid window or order, and a damaged checkpoint or one of another run. Runs are
        compared by data, order, initial state and the name of ``step``, not by its code.
    TypeError
        If the state cannot be saved in a checkpoint; the message names the part.
    MemoryError
        If ``window`` blocks do not fit; nothing is computed.

    Notes
    -----
    Results do not depend on ``window``, the scheduler or the number of workers. Local runs hold one state. On a cluster
    a task of several steps copies the state, and every four tasks send it to the client: a lost worker repeats at most
    these. Keep states small compared with blocks.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> import dkdist as dk
    >>> X = da.arange(12, chunks=3).reshape(4, 3)
    >>> dk.fold(X, lambda total, block: total + block.sum(axis=0), np.zeros(3))
    array([18., 22., 26.])
    >>> from sklearn.cluster import MiniBatchKMeans
    >>> X = da.random.default_rng(0).random((1000, 2), chunks=(100, 2))
    >>> shuffled = np.random.default_rng(0)
    >>> dk.fold(X, MiniBatchKMeans.partial_fit, MiniBatchKMeans(3, random_state=0), order=shuffled).n_steps_
    10
    """
    check_verbose(verbose)
    blocks = _fold_blocks(data)
    numbers = _block_numbers(order, len(blocks))
    max_blocks = None if is_literal(window, "auto") else check_int("window", window)
    saved = None if checkpoint is None else FoldCheckpoint(checkpoint, data, step, state, numbers)
    first_state, n_done = (saved and saved.load()) or (copy.deepcopy(state), 0)
    jobs = [Job((i,)) for i in numbers[n_done:].tolist()]
    n_waiting = min(max_blocks or fold_window(blocks), len(jobs))
    plan = plan_blocks(blocks, what="fold", n_blocks=len(jobs), waiting=n_waiting)

    def save(new_state: State, n_jobs: int) -> None:
        if saved is not None:
            saved.save(new_state, n_done + n_jobs)

    with plan.run(verbose) as progress:
        result: State = fold_jobs(
            blocks, jobs, _first_block, step, first_state,
            label="fold", window=max_blocks, on_segment=save, progress=progress,
            sequential=blocks.local, in_place=True,
        )  # fmt: skip
    return result


def _fold_blocks(data: Any) -> Blocks:
    blocks = collection_blocks(data)
    if blocks is not None:
        return blocks
    sets = check_sets(data, text=True)
    if isinstance(sets, LazySets):
        return source_blocks(*block_views(sets, row_bytes=0))
    return local_blocks(sets, max_block_sets(len(sets)))


def _block_numbers(order: Any, n_blocks: int) -> I64:
    if order is None:
        return np.arange(n_blocks)
    if isinstance(order, np.random.Generator):
        return order.permutation(n_blocks)
    numbers = np.asarray(order)
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
        raise ValueError(
            f"order must be a list of block numbers, a numpy.random.Generator or None; got {order!r:.200}. For a "
            "random order pass numpy.random.default_rng(seed)."
        )
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < n_blocks:
        raise ValueError(
            f"order must contain numbers from 0 to {n_blocks - 1}, as data has {n_blocks} blocks; got numbers from "
            f"{numbers.min()} to {numbers.max()}."
        )
    return numbers.astype(np.int64)


def _first_block(blocks: Iterator[Any], extra: None) -> Any:
    block = next(blocks)
    return list(block) if isinstance(block, Iterator) else block  # bags may compute partitions lazily
