"""What each stage of a fit takes of this machine's processors: measured on made-up sets in a second or two, and kept.

Made-up sets are as large as the store's are on average. What was measured is kept in a file beside the compiled loops,
by the machine (its processor and cores, and the versions of what computes, with the time at which this package was last
changed) and by the fit.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from itertools import repeat
from pathlib import Path
from threading import Barrier
from typing import Any, NamedTuple

import dask
import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.pipeline import make_pipeline

import dkdist
from dkdist.base.inputs import survey
from dkdist.cli.machine.stage_seconds import FitSizes, StageRates, stage_seconds
from dkdist.execution.blocks import row_blocks
from dkdist.execution.map_reduce import collect
from dkdist.execution.processes.process import one_blas_thread
from dkdist.execution.processes.processors import kind
from dkdist.kernel.features.random_fourier_features import FourierMap
from dkdist.learners.descent.pieces import PIECE_TILES
from dkdist.learners.descent.sgd_steps import Objective, State, prepare, step
from dkdist.learners.ridge_solutions import inverses
from dkdist.learners.ridge_statistics import centred
from dkdist.learners.ridge_sums import accumulate
from dkdist.learners.rows import Known, Rows
from dkdist.linear.ridge.ridge_solving import GIVEN, HELD_OUT, Ask, found_from_sums
from dkdist.loops.compile import kept_code

MAX_COORDINATES = 800_000  # of made-up points
MIN_SETS = 16
FEW_SETS = 512  # that are fitted for what is beside the stages
REPEATS = 5  # of which the median counts
SMALL = 256, 640  # equations that are solved from rows
LARGE = 1024  # from sums
MAX_MEASURED_COLUMNS = (
    2048  # of rows that a learner is measured on; the rates of longer rows follow from these
)
MOST_KEPT = 200  # answers in the file

F32 = np.dtype(np.float32)


class FitSetup(NamedTuple):
    """A fit: sets of ``n_points`` points in ``n_dims`` dimensions with ``names``, fitted ``steps`` to rows, a learner.

    ``on_request`` features are made when a step comes to them; else ``cores`` make pieces or blocks of them and learn
    at the same time. ``fresh`` are the same steps before they are fitted. Blocks hold up to ``block_sets`` sets.
    ``dual``: ridge solves for as many unknowns as there are sets, which are no more than the features.
    """

    n_points: int
    n_dims: int
    names: Any
    steps: tuple[Any, ...]
    learner: Any
    n_outputs: int
    on_request: bool
    cores: int
    fresh: tuple[Any, ...]
    block_sets: int
    dual: bool

    @property
    def key(self) -> str:
        """What tells it from others."""
        said = [
            self.n_points,
            self.n_dims,
            self.n_outputs,
            self.on_request,
            self.cores,
            self.block_sets,
            self.dual,
            *self.fresh,
        ]
        said += [step.spec_ for step in self.steps] + [type(self.learner).__name__, self.learner.get_params()]
        return hashlib.sha256(repr(said).encode()).hexdigest()[:32]


def rates_here(setup: FitSetup, tell: Callable[[], None]) -> StageRates:
    """The rates for the fit: those that are kept, or measured now, which ``tell`` is called before."""
    path, machine = Path(kept_code()[0]) / "rates.json", _machine()
    known = _known(path, machine)
    with suppress(KeyError, TypeError, ValueError):
        return StageRates(*(float(known[setup.key][name]) for name in StageRates._fields))
    tell()
    found = measure(setup)
    known.pop(setup.key, None)
    _write(path, {machine: dict([*known.items(), (setup.key, found._asdict())][-MOST_KEPT:])})
    return found


def _machine() -> str:
    """This machine, and what computes on it."""
    names = [f"{name} {version(name)}" for name in ("dkdist", "numpy", "numba", "scikit-learn")]
    changed = max(file.stat().st_mtime_ns for file in Path(dkdist.__file__).parent.rglob("*.py"))
    return "; ".join([kind(), platform.processor(), f"{os.cpu_count()} cores", *names, f"of {changed}"])


def _known(path: Path, machine: str) -> dict[str, Any]:
    """What the file holds for this machine; nothing if it cannot be read."""
    with suppress(OSError, ValueError):
        found = json.loads(path.read_text())
        if isinstance(found, dict) and isinstance(found.get(machine), dict):
            return dict(found[machine])
    return {}


def _write(path: Path, document: Any) -> None:
    """Replace the file whole; where that cannot be, the next command measures again."""
    growing = path.with_name(f"rates-{uuid.uuid4().hex}")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        growing.write_text(json.dumps(document, indent=1))
        os.replace(growing, path)


def measure(setup: FitSetup) -> StageRates:
    """Run each stage some times, on one thread; what makes and reads blocks of features on as many as in a fit.

    Sizes are capped, and rates scaled: embedding a set, and making and descending rows, takes time in proportion to
    points and columns, and adding up Gram matrices to the square of the columns.
    """
    requested_columns, setup = learner_columns(setup), _capped(setup)
    n_points = min(setup.n_points, max(1, MAX_COORDINATES // (MIN_SETS * setup.n_dims)))
    n = int(np.clip(MAX_COORDINATES // (n_points * setup.n_dims), MIN_SETS, setup.block_sets))
    points = np.random.default_rng(0).random((n, n_points, setup.n_dims), np.float32)
    with tempfile.TemporaryDirectory() as folder, one_blas_thread(), dask.config.set(num_workers=1):
        made_up = dkdist.SampleSets.from_arrays(list(points), names=setup.names)
        store = os.path.join(folder, "sets.zarr")
        dkdist.write_sets(store, made_up)
        sets = dkdist.open_sets(store, block_sets=n)
        embedding, *features = setup.steps
        embedding = copy(embedding)
        embedding.origin_ = sets.origin  # these lie near zero, wherever the store's do
        lazy = embedding.transform(sets)
        rows, tables = lazy.compute(), [each.spec_.draw() for each in features]
        features_of = partial(_pieces if _is_sgd(setup.learner) else _features, tables, rows)
        made = features_of() if features else np.ascontiguousarray(rows[:, :MAX_MEASURED_COLUMNS])
        per_row = made.shape[-1] / n if setup.dual else 1.0  # products of pairs of rows
        learn, squares, solve = (
            _sgd(setup, rows, made, tables) if _is_sgd(setup.learner) else _ridge(setup, made)
        )
        read = _usual(lambda: sets.load())
        found = StageRates(
            start=0.0,
            read=read / sets.n_points,
            look=(_usual(lambda: survey(sets, None, skip=False, sampled=True)) - read) / sets.n_points,
            embed=setup.n_points / n_points * (_usual(lambda: collect(row_blocks(lazy), _let_go)) - read) / n,
            features=0.0
            if setup.on_request or not features
            else _while_others_do(features_of, setup.cores) / n,
            learn=per_row * _while_others_do(learn, 1 if setup.on_request else setup.cores) / n,
            squares=squares,
            solve=solve,
        )
        sgd, measured = _is_sgd(setup.learner), made.shape[-1]
        here = _for_columns(found, learner_columns(setup) / measured, sgd)
        start = _beside_stages(setup, sets[:FEW_SETS], here)
        return _for_columns(found._replace(start=start), requested_columns / measured, sgd)


def _for_columns(rates: StageRates, ratio: float, sgd: bool) -> StageRates:
    """The rates of rows that are longer by a ratio than the measured ones."""
    return rates._replace(features=rates.features * ratio, learn=rates.learn * ratio ** (1 if sgd else 2))


def _capped(setup: FitSetup) -> FitSetup:
    """The same fit with no more random features than are measured."""
    if learner_columns(setup) <= MAX_MEASURED_COLUMNS or len(setup.steps) == 1:
        return setup
    *first, features = setup.steps
    small = copy(features)
    small.spec_ = replace(features.spec_, n_components=MAX_MEASURED_COLUMNS)
    *fresh, untrained = setup.fresh
    return setup._replace(
        steps=(*first, small),
        fresh=(*fresh, clone(untrained).set_params(n_components=MAX_MEASURED_COLUMNS)),
    )


def _beside_stages(setup: FitSetup, sets: Any, rates: StageRates) -> float:
    """What a whole fit of few sets takes beside its stages: what is chosen by samples of sets and rows."""
    learner = type(setup.learner)(**setup.learner.get_params())
    if _is_sgd(learner):
        learner.set_params(n_epochs=1)
    fit = make_pipeline(*setup.fresh, learner)
    n, y = len(sets), np.arange(len(sets)) % max(2, setup.n_outputs)
    sizes = FitSizes(n, sets.n_points, 1, n, learner_columns(setup), 1, _is_sgd(learner), False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what made-up sets cannot learn
        return max(0.0, _usual(lambda: fit.fit(sets, y), 2) - stage_seconds(rates, sizes)["all"])


def _features(tables: Any, rows: Any) -> Any:
    """A block of features."""
    return FourierMap(rows.shape[1])(tables[0], rows)


def _pieces(tables: Any, rows: Any) -> Any:
    """The same, a piece at a time, as threads make them ahead of steps; the last that was as long as any."""
    left = FourierMap(rows.shape[1]).on_request(tables[0], rows)
    size = min(len(rows), PIECE_TILES * left.tile)
    out = np.empty((1, size, left.shape[1]), F32)
    for start in range(0, len(rows) - size + 1, size):
        left.fill(np.arange(start, start + size), out[0])
    return out


def learner_columns(setup: FitSetup) -> int:
    """Columns of the rows that it learns from."""
    return int(setup.steps[-1].spec_.n_features)


def _let_go(block: Any, extra: None) -> None:
    """Nothing of a block."""


def _is_sgd(learner: Any) -> bool:
    return not learner.by_sums


def _usual(work: Callable[[], Any], repeats: int = REPEATS) -> float:
    """The median of the processor's time of some runs, after one that compiles."""
    work()
    return float(np.median([_processor_time(work) for _ in range(repeats)]))


def _while_others_do(work: Callable[[], Any], n_threads: int) -> float:
    """The same of one thread while the others do the same: they share what reaches memory, and its pages."""
    work()  # what fails does so here, and leaves nobody waiting for others
    together = Barrier(n_threads)

    def times(_: int) -> list[float]:
        together.wait()
        taken = [time.thread_time()]
        for _ in range(REPEATS):
            work()
            taken.append(time.thread_time())
        return list(np.diff(taken))

    with ThreadPoolExecutor(n_threads) as threads:
        return float(np.median(list(threads.map(times, range(n_threads)))))


def _processor_time(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _sgd(setup: FitSetup, rows: Any, made: Any, tables: list[Any]) -> tuple[Callable[[], Any], float, float]:
    """Steps over all rows, whose features are made by the way, or ``made`` a piece at a time; nothing to solve."""
    n, D = len(rows), made.shape[-1]
    n_classes = max(2, setup.n_outputs) if is_classifier(setup.learner) else 0
    loss = setup.learner.loss
    objective = Objective(loss, float(setup.learner.alpha), 1e-3, n_classes, bool(setup.learner.average))
    y = np.arange(n) % n_classes if n_classes else np.arange(n) / n
    rows_of_batch = Rows((0,), (n,), D, Known(y, np.zeros(n, np.bool_)), seed=(0,))

    def blocks() -> Iterator[Any]:
        yield FourierMap(rows.shape[1]).on_request(tables[0], rows) if tables else made

    batch, start = prepare(F32, blocks(), rows_of_batch), State.start(objective.n_outputs, D, F32)
    others = None if setup.on_request else lambda make, n: repeat(made, n)
    return lambda: step(objective, start, batch, others), 0.0, 0.0


def _ridge(setup: FitSetup, made: Any) -> tuple[Callable[[], Any], float, float]:
    """Sums over all rows, or products of them, and seconds to solve over the second and third power of the unknowns."""
    n, D = made.shape
    if setup.dual:
        return partial(_row_products, made), *_solving_rows(setup)
    known = Known(np.ones((n, setup.n_outputs)), np.arange(n) % 10 == 0)
    split = setup.learner.selection == HELD_OUT and len(setup.learner.penalties()) > 1
    squares, solve = _solving(setup, split) if setup.learner.selection == HELD_OUT else _solving_rows(setup)
    rows = Rows((0,), (n,), D, known)
    return lambda: accumulate(F32, True, split, None, iter([made]), rows), squares, solve


def _row_products(made: Any) -> Any:
    """The Gram matrix of rows, in float64 as ridge has it."""
    X = made.astype(np.float64)
    return X @ X.T


def _solving(setup: FitSetup, split: bool) -> tuple[float, float]:
    """Of equations from sums: factors of all penalties, which take the third power of their number, and the rest."""
    n, D, learner = 2 * LARGE, LARGE, setup.learner  # as many rows as make factors of all penalties possible
    known = Known(
        np.ones((n, setup.n_outputs)),
        np.arange(n) % 10 == 0,
        keys=np.zeros(n) if learner.calibrates else None,
    )
    X = np.random.default_rng(0).standard_normal((n, D)).astype(np.float32)
    sums = accumulate(F32, True, split, None, iter([X]), Rows((0,), (n,), D, known))
    alphas, equations = learner.penalties(), centred(sums.parts[0], True)
    ask = Ask(alphas, HELD_OUT if split else GIVEN, True, learner.calibrates)

    def factors() -> None:
        for tried in (alphas, alphas[:1]) if split else (alphas[:1],):
            for _ in inverses(equations, tried):
                pass

    cubes, every = _usual(factors, 3), _usual(lambda: found_from_sums(sums, ask), 3)
    return max(0.0, every - cubes) / D**2, cubes / D**3


def _solving_rows(setup: FitSetup) -> tuple[float, float]:
    """Of equations from rows, whose errors are found by leaving out one: all takes the third power of their number."""
    learner, taken = type(setup.learner)(**setup.learner.get_params()), []
    for size in SMALL:
        X = np.random.default_rng(0).standard_normal((size + 1, size)).astype(np.float32)
        taken.append(_usual(lambda X=X: learner.fit(X, np.arange(len(X)) % max(2, setup.n_outputs)), 2))  # type: ignore[misc]
    return 0.0, max(0.0, (taken[1] - taken[0]) / (SMALL[1] ** 3 - SMALL[0] ** 3))
