"""How a network of sets is trained: settings chosen on a validation part, early stopping on it, a time that is kept.

Half of the time is for choosing, in equal parts: the settings of `SETTINGS`, then the best of them with random
symmetries of the axes, in two and three dimensions. The other half trains the chosen one from the beginning. Adam with
decoupled weight decay; the learning rate falls along a cosine over the time given (or `MOST_EPOCHS`, if they come
first); the state that was best on the validation part is kept, and training ends when none was better for a quarter of
the schedule. Points are standardised. Batches take at most `MOST_POINTS` points of a set, drawn anew each time;
validation takes the same sample of large sets each time, prediction all points. The last validation is within the time.
A network trained with symmetries predicts by its mean over them.
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
HELD_OUT, MOST_HELD_OUT = 0.15, 2000  # share and number of the training sets that validate
MOST_POINTS = 256  # of a set in a batch
MOST_EPOCHS = 300
PATIENCE = 0.25  # of the schedule
WEIGHT_DECAY = 1e-2
CHECKED_POINTS = 2**18  # of all sets that validate, or `MOST_POINTS` of each, if that is more
ROWS_AT_ONCE = 2**14  # points that are evaluated together


class SetData:
    """Standardised points of all sets, and batches of them."""

    def __init__(self, sets: Any, mean: np.ndarray, scale: np.ndarray) -> None:
        self.points = torch.from_numpy(((sets.points - mean) / scale).astype("f4"))
        self.starts, self.sizes = np.asarray(sets.offsets[:-1]), np.asarray(sets.sizes)

    def batch(self, chosen: np.ndarray, most: int, rng: np.random.Generator) -> tuple[Tensor, Tensor | None]:
        """(points, where there are any) of the chosen sets; at random ``most`` of larger ones."""
        sizes = self.sizes[chosen]
        there = np.arange(sizes.max()) < sizes[:, None]
        if sizes.max() > most:
            keys = np.where(there, rng.random(there.shape, dtype="f4"), 2)
            places = keys.argpartition(most - 1, axis=1)[:, :most]
            there = np.take_along_axis(there, places, 1)
        else:
            places = np.where(there, np.arange(there.shape[1]), 0)
        x = self.points[torch.from_numpy(self.starts[chosen, None] + np.where(there, places, 0))]
        return x, None if there.all() else torch.from_numpy(there)

    def in_order(self, most: int | None = None) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Batches of all sets with all their points, or the same ``most`` of each at every call."""
        most = int(self.sizes.max()) if most is None else min(most, int(self.sizes.max()))
        step, rng = max(1, ROWS_AT_ONCE // most), np.random.default_rng(0)
        for a in range(0, len(self.sizes), step):
            yield self.batch(np.arange(a, min(a + step, len(self.sizes))), most, rng)


@dataclass(frozen=True)
class Part:
    """Sets and what is true of them: standardised targets (n, 1) float32, or classes (n,) int64."""

    data: SetData
    y: Tensor

    @property
    def classes(self) -> bool:
        return not self.y.is_floating_point()

    def loss(self, result: Tensor, y: Tensor) -> Tensor:
        return nn.functional.cross_entropy(result, y) if self.classes else nn.functional.mse_loss(result, y)

    def score(self, result: Tensor) -> tuple[float, float]:
        """To be large: accuracy and then the loss, or the loss alone."""
        loss = -float(self.loss(result, self.y))
        return (float((result.argmax(1) == self.y).float().mean()) if self.classes else loss), loss


@dataclass
class Trained:
    """A network, and its score on the validation part, averaged over the symmetries."""

    network: SetNetwork
    setting: Setting
    symmetries: str
    score: tuple[float, float]
    epochs: int

    @property
    def told(self) -> str:
        s = self.setting
        dropout = f", dropout {s.dropout:g}" if s.dropout else ""
        symmetries = f", {self.symmetries}" if self.symmetries else ""
        return f"width {s.width}, depth {s.depth}, rate {s.rate:g}{dropout}{symmetries}, {self.epochs} epochs"


def symmetries_of(d: int) -> dict[str, Tensor]:
    """Groups of signed permutations of the axes, as matrices (g, d, d): each axis mirrored, and all together."""
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


def predicted(
    network: SetNetwork, data: SetData, group: Tensor | None = None, most: int | None = None
) -> Tensor:
    """(n, outputs), the mean over the elements of the group, by ``most`` points of a set."""
    network.eval()
    elements = [None] if group is None else list(group)
    with torch.no_grad():
        return torch.cat(
            [
                sum(network(x if g is None else x @ g, there) for g in elements) / len(elements)
                for x, there in data.in_order(most)
            ]
        )


class Checks:
    """The validation part: it keeps the best state, and knows what time it takes to look at it."""

    def __init__(self, network: SetNetwork, held: Part, group: Tensor | None) -> None:
        self.network, self.held, self.group = network, held, group
        self.most = max(MOST_POINTS, CHECKED_POINTS // len(held.y))
        start = now()
        self.score()
        self.best, self.at = (-math.inf, -math.inf), 0.0
        self.state = copy.deepcopy(network.state_dict())
        looks = 1 if group is None else 1 + len(group)
        self.reserved = looks * (now() - start)  # for the last looks

    def score(self, group: Tensor | None = None) -> tuple[float, float]:
        return self.held.score(predicted(self.network, self.held.data, group, self.most))

    def look(self, progress: float) -> None:
        if (score := self.score()) > self.best:
            self.best, self.at = score, progress
            self.state = copy.deepcopy(self.network.state_dict())

    def finish(self) -> tuple[float, float]:
        """The score of the best state, averaged over the group."""
        self.network.load_state_dict(self.state)
        return self.best if self.group is None else self.score(self.group)


def trained(
    pooling: str, setting: Setting, symmetries: str, part: Part, held: Part, outputs: int, seconds: float, seed: int
) -> Trained:  # fmt: skip
    """A network trained for at most that time; its state is the one that was best on the sets held out."""
    start = now()
    torch.manual_seed(seed)
    rng, d, n = np.random.default_rng(seed), part.data.points.shape[1], len(part.y)
    group = symmetries_of(d)[symmetries] if symmetries else None
    network = SetNetwork(d, outputs, pooling, setting)
    adam = torch.optim.AdamW(network.parameters(), setting.rate, weight_decay=WEIGHT_DECAY)
    checks = Checks(network, held, group)
    allowed = max(seconds - checks.reserved, seconds / 10)
    size, progress, epoch = 64 if n < 4000 else 128, 0.0, 0
    while progress < 1 and progress - checks.at < PATIENCE:
        network.train()
        order = rng.permutation(n)
        for a in range(0, n, size):
            progress = max((now() - start) / allowed, (epoch + a / n) / MOST_EPOCHS)
            if progress >= 1:
                break
            adam.param_groups[0]["lr"] = setting.rate * (1 + math.cos(math.pi * progress)) / 2
            step(network, adam, part, order[a : a + size], group, rng)
        epoch += 1
        checks.look(progress)
    return Trained(network, setting, symmetries, checks.finish(), epoch)


def step(network: SetNetwork, adam: Any, part: Part, chosen: Any, group: Tensor | None, rng: Any) -> None:
    """One step by one batch, each of its sets under a random symmetry."""
    x, there = part.data.batch(chosen, MOST_POINTS, rng)
    if group is not None:
        x = torch.bmm(x, group[torch.from_numpy(rng.integers(len(group), size=len(x)))])
    adam.zero_grad()
    part.loss(network(x, there), part.y[torch.from_numpy(chosen)]).backward()
    adam.step()


class NetworkLearner:
    """A network of sets with one pooling ("mean", "max" or "attention"), chosen and trained within some seconds.

    Its attributes after ``fit``: ``choosing_`` and ``fitting_`` (seconds), ``tried_`` and ``chosen_`` (in words).
    """

    def __init__(self, pooling: str, seconds: float, seed: int = 0) -> None:
        self.pooling, self.seconds, self.seed = pooling, seconds, seed

    def fit(self, sets: Any, y: np.ndarray) -> NetworkLearner:
        start = now()
        part, held = self._parts(sets, y)
        outputs = len(self.classes_) if part.classes else 1
        more = symmetries_of(sets.n_dims)
        share = self.seconds / 2 / (len(SETTINGS) + len(more))

        def run(setting: Setting, symmetries: str, seconds: float) -> Trained:
            return trained(self.pooling, setting, symmetries, part, held, outputs, seconds, self.seed)

        tried = [run(setting, "", share) for setting in SETTINGS]
        best = max(tried, key=lambda t: t.score)
        tried += [run(best.setting, symmetries, share) for symmetries in more]
        best = max(tried, key=lambda t: t.score)
        self.choosing_ = now() - start
        self.tried_ = {t.told: t.score[0] for t in tried}
        self.model_ = run(best.setting, best.symmetries, self.seconds / 2)
        self.fitting_ = now() - start - self.choosing_
        self.chosen_ = self.model_.told
        return self

    def _parts(self, sets: Any, y: np.ndarray) -> tuple[Part, Part]:
        """What is trained on, and what validates; points and targets are standardised by the former."""
        classes = y.dtype.kind != "f"
        held = min(round(HELD_OUT * len(y)), MOST_HELD_OUT)
        first, second = train_test_split(
            np.arange(len(y)), test_size=held, stratify=y if classes else None, random_state=self.seed
        )
        own = sets[first]
        scale = own.points.std(axis=0)
        self.points_ = own.points.mean(axis=0), np.where(scale > 0, scale, 1)
        self.y_mean_, self.y_scale_ = (0.0, 1.0) if classes else (y[first].mean(), y[first].std())
        self.classes_, index = np.unique(y, return_inverse=True)
        target = torch.from_numpy(
            index if classes else ((y - self.y_mean_) / self.y_scale_)[:, None].astype("f4")
        )
        parts = [
            Part(SetData(some, *self.points_), target[rows])
            for some, rows in ((own, first), (sets[second], second))
        ]
        return parts[0], parts[1]

    def predict(self, sets: Any) -> np.ndarray:
        model = self.model_
        group = symmetries_of(sets.n_dims)[model.symmetries] if model.symmetries else None
        result = predicted(model.network, SetData(sets, *self.points_), group)
        if result.shape[1] > 1:
            return self.classes_[result.argmax(1).numpy()]
        return result[:, 0].double().numpy() * self.y_scale_ + self.y_mean_
