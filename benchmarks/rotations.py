"""Classify randomly rotated shapes and upright digits, with and without rotation-invariant representations.

    python benchmarks/rotations.py [--quick] [--seeds 1] [--output rotations.json]

silhouettes    200 points on the outlines of 1,400 MPEG-7 silhouettes of 70 classes, with unit area, rotated
solids         300 points in each of 480 solids of 8 classes, with unit mean squared radius, rotated
digits         1,797 digits of scikit-learn (8 x 8 pixels), upright: pixels in the plane, weighted by their ink

Half of the sets are for training, the other half for testing. "without" has the default candidates except
"rotation"; "by name" is `InvariantFeatures("rotation")`, random features and a ridge classifier; "forest" has 32
quantiles of all pairwise distances and the principal moments, and 500 trees. Weights are ignored by "forest".

Data: mpeg7_shapes.npz in the folder DKDIST_DATA (benchmarks/papers/shapes.py); --quick leaves it out.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import options, start_report, write
from scipy import ndimage
from scipy.spatial.distance import pdist
from scipy.stats import special_ortho_group
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline

import dkdist as dk

sys.path.insert(0, str(Path(__file__).parent / "papers"))
import shapes
from study import data_file

F64 = np.ndarray
N_OUTLINE_POINTS, N_SOLID_POINTS = 200, 300
OTHER_FAMILIES = (
    "sizes", "means", "moments", "hellinger", "marginals", "symmetric", "sliced-wasserstein", "kernel-mean", "trees",
)  # fmt: skip


def rotated(x: F64, rng: np.random.Generator) -> F64:
    return x @ special_ortho_group.rvs(x.shape[1], random_state=rng).T


def silhouettes(rng: np.random.Generator) -> tuple[dk.SampleSets, F64]:
    file = data_file("mpeg7_shapes.npz", shapes.SHA256, "github.com/wvenialbo/mpeg7ce1dataset")
    with np.load(file) as data:
        bits, offsets, sizes, names = (data[name] for name in ("bits", "offsets", "shapes", "names"))
    sets = []
    for i, (h, w) in enumerate(sizes):
        image = np.unpackbits(bits[offsets[i] : offsets[i + 1]])[: h * w].reshape(h, w) > 0
        parts, n = ndimage.label(np.pad(image, 2), np.ones((3, 3)))
        largest = 1 + np.argmax(np.bincount(parts.ravel(), minlength=n + 1)[1:])
        filled = ndimage.binary_fill_holes(parts == largest)
        border = np.argwhere(filled & ~ndimage.binary_erosion(filled))
        points = border[rng.choice(len(border), N_OUTLINE_POINTS, replace=len(border) < N_OUTLINE_POINTS)]
        points = points + rng.uniform(-0.5, 0.5, points.shape) - np.argwhere(filled).mean(axis=0)
        sets.append(rotated(points / np.sqrt(filled.sum()), rng))
    return dk.SampleSets.from_arrays(sets), np.unique(names, return_inverse=True)[1]


def solid(kind: int, n: int, rng: np.random.Generator) -> F64:
    """Return points, uniform in: cube, ball, cylinder, cone, torus, tetrahedron, octahedron or prism."""
    box, angle, root = rng.uniform(-1, 1, (n, 3)), rng.uniform(0, 2 * np.pi, n), np.sqrt(rng.random(n))
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    disc = root[:, None] * circle
    if kind == 0:
        return box
    if kind == 1:
        x = rng.normal(size=(n, 3))
        return x / np.linalg.norm(x, axis=1, keepdims=True) * rng.random((n, 1)) ** (1 / 3)
    if kind == 2:
        return np.column_stack([disc, box[:, 2]])
    if kind == 3:
        height = rng.random((n, 1)) ** (1 / 3)
        return np.column_stack([disc * height, 2 * height])
    if kind == 4:
        tube = 0.4 * np.sqrt(rng.random(n)) * np.exp(1j * rng.uniform(0, 2 * np.pi, n))
        return np.column_stack([circle * (1 + tube.real[:, None]), tube.imag])
    if kind == 5:
        corners = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
        return rng.dirichlet(np.ones(4), n) @ corners
    if kind == 6:
        return rng.dirichlet(np.ones(4), n)[:, :3] * rng.choice([-1, 1], (n, 3))
    triangle = np.array([[1, 0], [-0.5, 0.75**0.5], [-0.5, -(0.75**0.5)]])
    return np.column_stack([rng.dirichlet(np.ones(3), n) @ triangle, box[:, 2]])


def solids(rng: np.random.Generator, n_sets: int = 480) -> tuple[dk.SampleSets, F64]:
    y, sets = np.arange(n_sets) % 8, []
    for kind in y:
        x = solid(kind, N_SOLID_POINTS, rng)
        x = x - x.mean(axis=0)
        sets.append(rotated(x / np.sqrt((x**2).sum(axis=1).mean()), rng))
    return dk.SampleSets.from_arrays(sets), y


def digits(rng: np.random.Generator) -> tuple[dk.SampleSets, F64]:
    images, y = load_digits(return_X_y=True)
    places = [np.argwhere(image.reshape(8, 8)) for image in images]
    sets = [p + rng.uniform(-0.5, 0.5, p.shape) for p in places]
    return dk.SampleSets.from_arrays(sets, [image[image > 0] for image in images]), y


def distance_columns(sets: dk.SampleSets) -> F64:
    levels = (np.arange(32) + 0.5) / 32
    return np.array(
        [[*np.quantile(pdist(x), levels), *np.linalg.eigvalsh(np.cov(x.T, bias=True))] for x in sets]
    )


def accuracies(sets: dk.SampleSets, y: F64, rng: np.random.Generator) -> dict[str, tuple[float, float]]:
    """Return accuracy and seconds by model."""
    is_training = np.zeros(len(y), bool)
    for label in np.unique(y):
        members = rng.permutation(np.flatnonzero(y == label))
        is_training[members[: len(members) // 2]] = True
    columns = distance_columns(sets)
    by_name = make_pipeline(
        dk.InvariantFeatures("rotation"),
        dk.RandomFourierFeatures(4000, random_state=0),
        dk.IncrementalRidgeClassifier(random_state=0),
    )
    models: dict[str, tuple[Any, Any]] = {
        "without": (dk.SetClassifier(OTHER_FAMILIES, random_state=0), sets),
        "with": (dk.SetClassifier(random_state=0), sets),
        "by name": (by_name, sets),
        "forest": (RandomForestClassifier(500, random_state=0), columns),
    }
    result = {}
    for name, (model, X) in models.items():
        start = time.perf_counter()
        model.fit(X[is_training], y[is_training])
        score = float(model.score(X[~is_training], y[~is_training]))
        result[name] = score, time.perf_counter() - start
    return result


def main() -> None:
    parser = options(__doc__, quick="80 solids, to see that it runs")
    parser.add_argument("--seeds", type=int, default=1, help="repetitions with other rotations and halves")
    args = parser.parse_args()
    tasks: dict[str, Any] = {"silhouettes": silhouettes, "solids": solids, "digits": digits}
    if args.quick:
        tasks = {"solids": lambda rng: solids(rng, 80)}
    report: dict[str, Any] = start_report()
    for task, make in tasks.items():
        for seed in range(args.seeds):
            rng = np.random.default_rng(seed)
            report[f"{task} {seed}"] = row = accuracies(*make(rng), rng)
            print(task, seed, "  ".join(f"{k} {a:.4f} ({s:.0f} s)" for k, (a, s) in row.items()), flush=True)
    write(args.output, report)


if __name__ == "__main__":
    main()
