"""Training of networks of sets: selection of settings and early stopping on a validation set, within a time budget.

Half of the budget is for selection, in equal parts: the settings of `SETTINGS`, then the best of them with random
symmetries of the axes, in two and three dimensions. The other half trains the best setting again. The optimiser is Adam
with decoupled weight decay and a cosine schedule of the learning rate over the time budget, or over `MAX_EPOCHS` if
they end first. The result is the state with the best validation score; training stops after a quarter of the schedule
without a better one. Points are standardised. Batches have at most `MAX_BATCH_POINTS` points per set, drawn again for
each batch; validation uses a fixed sample of large sets, prediction uses all points. The budget includes the last
validation. A network trained with symmetries predicts the mean over them.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from set_networks import SetNetwork, Setting
from sklearn.model_selection import train_test_split
from stopwatch import seconds as now
from torch import Tensor, nn

SETTINGS = (
    Setting(64, 2, 1e-3),
    Setting(128, 2, 1e-3, dropout=0.2),
    Setting(128, 3, 1e-3),
    Setting(128, 3, 3e-4),
)
VALIDATION_FRACTION, MAX_VALIDATION_SETS = 0.15, 2000
MAX_BATCH_POINTS = 256  # per set
MAX_EPOCHS = 300
PATIENCE = 0.25  # fraction of the schedule
WEIGHT_DECAY = 1e-2
N_VALIDATION_POINTS = 2**18  # of all validation sets, but at least `MAX_BATCH_POINTS` per set
EVALUATION_POINTS = 2**14  # per batch


class SetData:
    """Standardised points of all sets, and batches of them."""

    def __init__(self, sets: Any, mean: np.ndarray, scale: np.ndarray) -> None:
        self.points = torch.from_numpy(((sets.points - mean) / scale).astype("f4"))
        self.starts, self.sizes = np.asarray(sets.offsets[:-1]), np.asarray(sets.sizes)

    def batch(
        self, rows: np.ndarray, max_points: int, rng: np.random.Generator
    ) -> tuple[Tensor, Tensor | None]:
        """Return (points, mask without padding) of some sets, with ``max_points`` random points of larger ones."""
        sizes = self.sizes[rows]
        mask = np.arange(sizes.max()) < sizes[:, None]
        if sizes.max() > max_points:
            keys = np.where(mask, rng.random(mask.shape, dtype="f4"), 2)
            index = keys.argpartition(max_points - 1, axis=1)[:, :max_points]
            mask = np.take_along_axis(mask, index, 1)
        else:
            index = np.where(mask, np.arange(mask.shape[1]), 0)
        x = self.points[torch.from_numpy(self.starts[rows, None] + np.where(mask, index, 0))]
        return x, None if mask.all() else torch.from_numpy(mask)

    def in_order(self, max_points: int | None = None) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Yield batches of all sets with all points, or with the same ``max_points`` points at every call."""
        largest = int(self.sizes.max())
        max_points = largest if max_points is None else min(max_points, largest)
        step, rng = max(1, EVALUATION_POINTS // max_points), np.random.default_rng(0)
        for a in range(0, len(self.sizes), step):
            yield self.batch(np.arange(a, min(a + step, len(self.sizes))), max_points, rng)


@dataclass(frozen=True)
class LabelledSets:
    """Sets, and standardised targets (n, 1) float32 or classes (n,) int64."""

    data: SetData
    y: Tensor

    @property
    def classes(self) -> bool:
        return not self.y.is_floating_point()

    def loss(self, result: Tensor, y: Tensor) -> Tensor:
        return nn.functional.cross_entropy(result, y) if self.classes else nn.functional.mse_loss(result, y)

    def score(self, result: Tensor) -> tuple[float, float]:
        """Return (accuracy, -loss), or (-loss, -loss) for a regression."""
        loss = -float(self.loss(result, self.y))
        return (float((result.argmax(1) == self.y).float().mean()) if self.classes else loss), loss


@dataclass
class TrainedNetwork:
    """A network and its validation score, averaged over the symmetries."""

    network: SetNetwork
    setting: Setting
    symmetries: str
    score: tuple[float, float]
    epochs: int

    @property
    def description(self) -> str:
        s = self.setting
        dropout = f", dropout {s.dropout:g}" if s.dropout else ""
        symmetries = f", {self.symmetries}" if self.symmetries else ""
        return f"width {s.width}, depth {s.depth}, rate {s.rate:g}{dropout}{symmetries}, {self.epochs} epochs"


def symmetries_of(d: int) -> dict[str, Tensor]:
    """Return groups of signed permutations of the axes, as matrices (g, d, d), by name."""
    if not 2 <= d <= 3:
        return {}
    groups = {f"mirrored along axis {j}": _signed(d, [range(d)], [j]) for j in range(d)}
    if d == 2:
        return groups | {"reflected and swapped": _signed(d, itertools.permutations(range(d)), range(d))}
    return groups | {"reflected": _signed(d, [range(d)], range(d))}


def _signed(d: int, orders: Any, axes: Any) -> Tensor:
    signs = itertools.product(*[(1.0, -1.0) if j in axes else (1.0,) for j in range(d)])
    eye = np.eye(d, dtype="f4")
    return torch.from_numpy(
        np.stack([eye[list(o)] * np.array(s, "f4") for o, s in itertools.product(orders, signs)])
    )


def predict(
    network: SetNetwork, data: SetData, group: Tensor | None = None, max_points: int | None = None
) -> Tensor:
    """Return outputs (n, k), averaged over the group, from at most ``max_points`` points per set."""
    network.eval()
    elements = [None] if group is None else list(group)
    with torch.no_grad():
        return torch.cat(
            [
                sum(network(x if g is None else x @ g, mask) for g in elements) / len(elements)
                for x, mask in data.in_order(max_points)
            ]
        )


class Validation:
    """Scores a network on the validation set, stores its best state, and measures the time of scoring."""

    def __init__(self, network: SetNetwork, held_out: LabelledSets, group: Tensor | None) -> None:
        self.network, self.held_out, self.group = network, held_out, group
        self.max_points = max(MAX_BATCH_POINTS, N_VALIDATION_POINTS // len(held_out.y))
        start = now()
        self.score()
        self.best_score, self.best_progress = (-math.inf, -math.inf), 0.0
        self.state = copy.deepcopy(network.state_dict())
        n_evaluations = 1 if group is None else 1 + len(group)
        self.reserved_seconds = n_evaluations * (now() - start)  # of the last validation

    def score(self, group: Tensor | None = None) -> tuple[float, float]:
        return self.held_out.score(predict(self.network, self.held_out.data, group, self.max_points))

    def update(self, progress: float) -> None:
        if (score := self.score()) > self.best_score:
            self.best_score, self.best_progress = score, progress
            self.state = copy.deepcopy(self.network.state_dict())

    def finish(self) -> tuple[float, float]:
        """Restore the best state and return its score, averaged over the group."""
        self.network.load_state_dict(self.state)
        return self.best_score if self.group is None else self.score(self.group)


def train_network(
    pooling: str, setting: Setting, symmetries: str, train: LabelledSets, held_out: LabelledSets, outputs: int,
    seconds: float, seed: int,
) -> TrainedNetwork:  # fmt: skip
    """Train a network for at most some seconds; its state is the best on the validation set."""
    start = now()
    torch.manual_seed(seed)
    rng, d, n = np.random.default_rng(seed), train.data.points.shape[1], len(train.y)
    group = symmetries_of(d)[symmetries] if symmetries else None
    network = SetNetwork(d, outputs, pooling, setting)
    adam = torch.optim.AdamW(network.parameters(), setting.rate, weight_decay=WEIGHT_DECAY)
    validation = Validation(network, held_out, group)
    budget = max(seconds - validation.reserved_seconds, seconds / 10)
    size, progress, epoch = 64 if n < 4000 else 128, 0.0, 0
    while progress < 1 and progress - validation.best_progress < PATIENCE:
        network.train()
        order = rng.permutation(n)
        for a in range(0, n, size):
            progress = max((now() - start) / budget, (epoch + a / n) / MAX_EPOCHS)
            if progress >= 1:
                break
            adam.param_groups[0]["lr"] = setting.rate * (1 + math.cos(math.pi * progress)) / 2
            step(network, adam, train, order[a : a + size], group, rng)
        epoch += 1
        validation.update(progress)
    return TrainedNetwork(network, setting, symmetries, validation.finish(), epoch)


def step(
    network: SetNetwork, adam: Any, train: LabelledSets, rows: Any, group: Tensor | None, rng: Any
) -> None:
    """Update the network by one batch, with a random symmetry per set."""
    x, mask = train.data.batch(rows, MAX_BATCH_POINTS, rng)
    if group is not None:
        x = torch.bmm(x, group[torch.from_numpy(rng.integers(len(group), size=len(x)))])
    adam.zero_grad()
    train.loss(network(x, mask), train.y[torch.from_numpy(rows)]).backward()
    adam.step()


class NetworkLearner:
    """A network of sets with one pooling ("mean", "max" or "attention"), selected and trained within some seconds.

    ``fit`` sets ``choosing_`` and ``fitting_`` (seconds), ``tried_`` (scores) and ``chosen_`` (description).
    """

    def __init__(self, pooling: str, seconds: float, seed: int = 0) -> None:
        self.pooling, self.seconds, self.seed = pooling, seconds, seed

    def fit(self, sets: Any, y: np.ndarray) -> NetworkLearner:
        start = now()
        train, held_out = self._split(sets, y)
        outputs = len(self.classes_) if train.classes else 1
        groups = symmetries_of(sets.n_dims)
        trial_seconds = self.seconds / 2 / (len(SETTINGS) + len(groups))

        def run(setting: Setting, symmetries: str, seconds: float) -> TrainedNetwork:
            return train_network(
                self.pooling, setting, symmetries, train, held_out, outputs, seconds, self.seed
            )

        trials = [run(setting, "", trial_seconds) for setting in SETTINGS]
        best = max(trials, key=lambda t: t.score)
        trials += [run(best.setting, symmetries, trial_seconds) for symmetries in groups]
        best = max(trials, key=lambda t: t.score)
        self.choosing_ = now() - start
        self.tried_ = {t.description: t.score[0] for t in trials}
        self.model_ = run(best.setting, best.symmetries, self.seconds / 2)
        self.fitting_ = now() - start - self.choosing_
        self.chosen_ = self.model_.description
        return self

    def _split(self, sets: Any, y: np.ndarray) -> tuple[LabelledSets, LabelledSets]:
        """Return training and validation sets, standardised by the training sets."""
        classes = y.dtype.kind != "f"
        n_validation = min(round(VALIDATION_FRACTION * len(y)), MAX_VALIDATION_SETS)
        first, second = train_test_split(
            np.arange(len(y)), test_size=n_validation, stratify=y if classes else None, random_state=self.seed
        )
        train = sets[first]
        scale = train.points.std(axis=0)
        self.points_ = train.points.mean(axis=0), np.where(scale > 0, scale, 1)
        self.y_mean_, self.y_scale_ = (0.0, 1.0) if classes else (y[first].mean(), y[first].std())
        self.classes_, index = np.unique(y, return_inverse=True)
        target = torch.from_numpy(
            index if classes else ((y - self.y_mean_) / self.y_scale_)[:, None].astype("f4")
        )
        parts = [
            LabelledSets(SetData(subset, *self.points_), target[rows])
            for subset, rows in ((train, first), (sets[second], second))
        ]
        return parts[0], parts[1]

    def predict(self, sets: Any) -> np.ndarray:
        model = self.model_
        group = symmetries_of(sets.n_dims)[model.symmetries] if model.symmetries else None
        result = predict(model.network, SetData(sets, *self.points_), group)
        if result.shape[1] > 1:
            return self.classes_[result.argmax(1).numpy()]
        return result[:, 0].double().numpy() * self.y_scale_ + self.y_mean_
