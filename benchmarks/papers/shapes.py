"""Retrieval of silhouettes by the kernel distance of their outlines: bull's-eye score on MPEG-7 (P3).

    python benchmarks/papers/shapes.py [--quick] [--output shapes.json]

The outline of each of 1,400 silhouettes (70 classes of 20) is a closed curve of 200 edges of equal length, translated
to the centroid of its area and scaled to unit area. There are three kinds of distance: "points" (centres of the edges,
weighted by their lengths), "current" (with edge vectors) and "varifold" (without the sign of the vectors); bandwidths
are in units of the square root of the area. The score is the mean number of shapes of the same class among the 40
nearest, including the shape itself, divided by 20, in percent; it is compared with published scores.

"as they are": D without alignment. "aligned": minimum D over 128 rotations and a reflection. "angle": the same with
1 - <a, b> / |a| |b| instead of |a - b|^2. "re-ranked", which uses the whole collection: cosines between rows of mutual
neighbours, each averaged over its nearest neighbours.

Fourier features of the curves on a polar grid of frequencies (Gauss-Legendre radii, equal angles) make D^2 a squared
Euclidean distance. A rotation by phi multiplies their angular harmonic m by exp(-i m phi), so inner products at all
angles need one matrix product per harmonic and one inverse Fourier transform. "error" is the maximum relative
difference of D^2 to `kernel_distance` over three pairs without alignment.

Kind, bandwidth, norm, and the neighbours of the re-ranking are selected by the scores of every second class; scores are
printed for all classes and for the other 35.

Data: mpeg7_shapes.npz in the folder DKDIST_DATA: MPEG-7 CE-Shape-1 part B, from
https://github.com/wvenialbo/mpeg7ce1dataset. OpenCV traces the outlines (pip install 'dkdist[papers]'). --quick uses
random outlines and needs neither.

P3: Joshi, Kommaraju, Phillips, Venkatasubramanian, Comparing distributions and shapes using the kernel distance (2011).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.fft import irfft
from study import data_file, options, write
from threadpoolctl import threadpool_limits

import dkdist as dk
from dkdist._numba.compilation import FINITE_REASSOC, inline_jit, jit
from dkdist._numba.elementary import f32, sincos

F64 = np.ndarray
SHA256 = "07878bcaf127f74388611d85cbab7a73f0b77bc442c349559ea67c1e6a6cd2f6"
EDGES, RADII, ANGLES, HARMONICS, ROTATIONS = 200, 64, 256, 48, 128
CUTOFF = 3.5  # maximum frequency times the minimum bandwidth
# weights of length, v, v^2 / |v|
KINDS = {
    "points": (1.0, 0, 0),
    "current": (0, 1.0, 0),
    "varifold": (0.5, 0, 0.5),
}
SIGMAS = ((0.1,), (0.15,), (0.2,), (0.3,), (0.5,), (0.1, 0.2, 0.4))
BLOCK_ROWS = 100
N_MUTUAL_NEIGHBOURS, N_AVERAGED_ROWS = (10, 14, 18), 6
LITERATURE = {"curvature scale space": 75.44, "shape contexts": 76.51, "inner-distance shape contexts": 85.40}


def outlines() -> tuple[list[F64], F64]:
    """Return the corners of the outlines with the maximum area, counter-clockwise, and their classes."""
    import cv2

    file = data_file("mpeg7_shapes.npz", SHA256, "https://github.com/wvenialbo/mpeg7ce1dataset")
    with np.load(file) as data:
        bits, offsets, sizes, names = (data[name] for name in ("bits", "offsets", "shapes", "names"))
    result = []
    for i, (h, w) in enumerate(sizes):
        image = np.unpackbits(bits[offsets[i] : offsets[i + 1]])[: h * w].reshape(h, w)
        contours, _ = cv2.findContours(np.pad(image, 2), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
        result.append(max(contours, key=cv2.contourArea)[:, 0] * [1.0, -1.0])
    return result, np.unique(names, return_inverse=True)[1]


def random_outlines(n_classes: int = 4) -> tuple[list[F64], F64]:
    rng, result = np.random.default_rng(0), []
    t = np.linspace(0, 2 * np.pi, 300, endpoint=False)[:, None]
    for _ in range(n_classes):
        heights, phases = 0.15 * rng.normal(size=6), rng.uniform(0, 6, 6)
        for i in range(20):
            varied_heights = heights + 0.02 * rng.normal(size=6)
            z = np.exp(np.cos(np.arange(1, 7) * t + phases) @ varied_heights) * np.exp(
                1j * (t[:, 0] + rng.uniform(0, 6))
            )
            z = rng.uniform(1, 5) * (z.conj() if i % 2 else z)
            result.append(np.stack([z.real, z.imag], axis=1))
    return result, np.repeat(np.arange(n_classes), 20)


def normalise(corners: F64) -> dk.Curve:
    """Return a closed counter-clockwise curve with equal edges and unit area, centred at its centroid."""
    z = corners @ [1, 1j]
    z = np.append(z, z[0])
    length = np.append(0, np.abs(np.diff(z)).cumsum())
    z = np.interp(np.arange(EDGES) / EDGES * length[-1], length, z)
    next_z = np.roll(z, -1)
    areas = (z.conj() * next_z).imag / 2  # signed areas of triangles with the origin
    z = (z - ((z + next_z) * areas).sum() / (3 * areas.sum())) / np.sqrt(abs(areas.sum()))
    z = z if areas.sum() > 0 else z[::-1]
    return dk.Curve(np.stack([z.real, z.imag], axis=1), closed=True)


@inline_jit(FINITE_REASSOC)
def _one_wave(x, y, channel, a, b):  # type: ignore[no-untyped-def]
    re, im = f32(0), f32(0)
    for i in range(len(x)):
        s, c = sincos(a * x[i] + b * y[i])
        re += channel[i] * c
        im -= channel[i] * s
    return re, im


@jit()
def waves(x, y, channels, a, b, out):  # type: ignore[no-untyped-def]
    """Set out[c, k] = sum_i channels[c, i] exp(-i (a_k x_i + b_k y_i))."""
    for k in range(len(a)):
        for c in range(len(channels)):
            re, im = _one_wave(x, y, channels[c], a[k], b[k])
            out[c, k] = re + 1j * im


@dataclass
class Harmonics:
    """Angular harmonics (2 M + 1, N, 3, radii) of length, v and v^2 / |v| of shapes and reflections; quadrature."""

    original: F64
    reflected: F64
    rho: F64
    weights: F64

    def weighted(self, harmonics: F64, kind: str, sigmas: tuple[float, ...]) -> F64:
        """Return rows whose inner products are those of the kernel, a mean of Gaussians."""
        spectrum = sum(s**2 * np.exp(-0.5 * (s * self.rho) ** 2) for s in sigmas) / len(sigmas)
        factors = np.sqrt(np.outer(KINDS[kind], spectrum * self.weights)).astype(np.float32)
        return (harmonics * factors).reshape(*harmonics.shape[:2], -1)[..., factors.ravel() > 0]


def polar_harmonics(curves: list[dk.Curve]) -> Harmonics:
    nodes, weights = np.polynomial.legendre.leggauss(RADII)
    cutoff = CUTOFF / min(min(s) for s in SIGMAS)
    rho, theta = (nodes + 1) / 2 * cutoff, 2 * np.pi * np.arange(ANGLES // 2) / ANGLES
    a, b = (np.outer(rho, f(theta)).ravel().astype(np.float32) for f in (np.cos, np.sin))
    orders = np.arange(-HARMONICS, HARMONICS + 1)
    original = np.empty((len(orders), len(curves), 3, RADII), np.complex64)
    reflected = np.empty_like(original)
    for i, curve in enumerate(curves):
        v = curve.channels @ [1, 1j]
        w = v**2 / np.abs(v)
        channels = np.stack([np.abs(v), v.real, v.imag, w.real, w.imag]).astype(np.float32)
        half = np.empty((5, RADII * ANGLES // 2), np.complex64)
        waves(*curve.points.T.astype(np.float32).copy(), channels, a, b, half)
        half = half.reshape(5, RADII, -1)
        full = np.concatenate([half, half.conj()], axis=2)  # the channels are real
        fields = np.stack([full[0], full[1] + 1j * full[2], full[3] + 1j * full[4]])
        spectrum = np.fft.fft(fields, axis=2) / ANGLES
        for c, sign in enumerate(
            (1, -1, 1)
        ):  # a rotation by phi turns v by phi and v^2 / |v| by 2 phi: harmonic m + c
            m = orders + c
            original[:, i, c] = spectrum[c][:, m].T
            flipped = spectrum[c][:, -m] if c == 0 else sign * (-1.0) ** m * spectrum[c][:, m].conj()
            reflected[:, i, c] = flipped.T
    return Harmonics(original, reflected, rho, weights / 2 * cutoff * rho)


def unaligned_products(A: F64) -> F64:
    """Return inner products of all pairs without alignment."""
    return sum((rows @ rows.conj().T).real for rows in A)


def aligned_products(A: F64, B: F64) -> F64:
    """Return the maximum inner products over rotations, with the shapes A and their reflections B."""
    result = np.empty((A.shape[1],) * 2, np.float32)
    M = HARMONICS
    for start in range(0, A.shape[1], BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        best = np.full(result[rows].shape, -np.inf, np.float32)
        for others in (A, B):
            G = np.matmul(A[:, rows], others.conj().transpose(0, 2, 1)).transpose(1, 2, 0)
            half = np.zeros((*best.shape, ROTATIONS // 2 + 1), np.complex64)
            half[..., 0] = G[..., M]
            half[..., 1 : M + 1] = (G[..., M + 1 :].conj() + G[..., M - 1 :: -1]) / 2  # of the real part
            np.maximum(best, irfft(half, ROTATIONS, axis=2).max(axis=2) * ROTATIONS, out=best)
        result[rows] = best
    return np.maximum(result, result.T)


def distances(G: F64, squares: F64, norm: str) -> F64:
    if norm == "angle":
        return 1 - G / np.sqrt(squares[:, None] * squares)
    return squares[:, None] + squares - 2 * G


def scores(D: F64, y: F64) -> dict[str, float]:
    """Return the bull's-eye score in percent of all shapes, of the classes for selection, and of the others."""
    nearest = np.argpartition(D, 39, axis=1)[:, :40]
    hits = (y[nearest] == y[:, None]).sum(axis=1) * 5.0
    is_for_selection = y % 2 == 0
    return {
        "all": float(hits.mean()),
        "choosing": float(hits[is_for_selection].mean()),
        "other": float(hits[~is_for_selection].mean()),
    }


def re_rank(D: F64, k: int) -> F64:
    """Return 1 - cosines between rows of mutual neighbours (k), averaged over the nearest N_AVERAGED_ROWS."""
    order = np.argsort(D, axis=1)
    near = np.zeros(D.shape, bool)
    np.put_along_axis(near, order[:, :k], True, axis=1)
    scale = np.sqrt(np.maximum(np.take_along_axis(D, order[:, k : k + 1], axis=1), 1e-12))
    rows = np.where(near & near.T, np.exp(-np.maximum(D, 0) / (scale * scale.T)), 0)
    rows = rows[order[:, :N_AVERAGED_ROWS]].mean(axis=1)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return 1 - rows @ rows.T


def error(curves: list[dk.Curve], kind: str, sigma: float, D: F64) -> float:
    """Return the maximum relative difference of D^2 to `kernel_distance` over three pairs."""
    if kind == "points":  # weighted as in the features
        shapes = [(c.points, np.linalg.norm(c.channels, axis=1)) for c in curves]
    else:
        shapes = [(dk.Curve(c.vertices, varifold=kind == "varifold"), None) for c in curves]
    pairs, result = [(0, len(curves) // 2), (1, len(curves) - 1), (3, 20)], []
    for i, j in pairs:
        (P, p), (Q, q) = shapes[i], shapes[j]
        weights = None if p is None else (p, q)
        exact = dk.kernel_distance(P, Q, sigma=sigma, squared=True, method="exact", weights=weights)
        result.append(float(abs(exact - D[i, j]) / exact))
    return max(result)


def study(curves: list[dk.Curve], y: F64) -> dict[str, Any]:
    start = time.perf_counter()
    H = polar_harmonics(curves)
    report: dict[str, Any] = {"features_seconds": time.perf_counter() - start, "rows": []}
    print(f"features of {len(curves)} curves: {report['features_seconds']:.1f} s")
    print("  kind      sigma          as they are  aligned   angle  (other classes)  error    seconds")
    best: tuple[float, F64, dict[str, Any]] | None = None
    for kind in KINDS:
        for sigmas in SIGMAS:
            start = time.perf_counter()
            A, B = (H.weighted(h, kind, sigmas) for h in (H.original, H.reflected))
            squares = (np.abs(A) ** 2).sum(axis=(0, 2))
            unaligned = distances(unaligned_products(A), squares, "distance")
            G = aligned_products(A, B)
            row: dict[str, Any] = {"kind": kind, "sigmas": sigmas, "as they are": scores(unaligned, y)}
            row["error"] = error(curves, kind, sigmas[0], unaligned) if len(sigmas) == 1 else None
            for norm in ("distance", "angle"):
                D = distances(G, squares, norm)
                row[norm] = scores(D, y)
                if best is None or row[norm]["choosing"] > best[0]:
                    best = (
                        row[norm]["choosing"],
                        D,
                        {"kind": kind, "sigmas": sigmas, "norm": norm} | row[norm],
                    )
            row["seconds"] = time.perf_counter() - start
            report["rows"].append(row)
            print_row(row)
    assert best is not None
    report["chosen"] = best[2]
    scores_by_k = {k: scores(re_rank(best[1], k), y) for k in N_MUTUAL_NEIGHBOURS}
    k = max(scores_by_k, key=lambda k: scores_by_k[k]["choosing"])
    report["re-ranked"] = {"k": k} | scores_by_k[k]
    for name in ("chosen", "re-ranked"):
        print(f"{name}: {report[name]}")
    print("published scores: " + ", ".join(f"{name} {x:.2f}" for name, x in LITERATURE.items()))
    return report


def print_row(row: dict[str, Any]) -> None:
    sigmas = ", ".join(map(str, row["sigmas"]))
    error_text = f"{row['error']:.1e}" if row["error"] is not None else "-"
    print(
        f"  {row['kind']:<9} {sigmas:<14} {row['as they are']['all']:>11.2f} {row['distance']['all']:>8.2f}"
        f" {row['angle']['all']:>7.2f} {row['angle']['other']:>16.2f}  {error_text:<8} {row['seconds']:>6.1f}",
        flush=True,
    )


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = options(__doc__, quick="random outlines, to see that it runs")
    args = parser.parse_args(argv)
    corners, y = random_outlines() if args.quick else outlines()
    with threadpool_limits(1):
        report = study([normalise(c) for c in corners], y)
    write(args.output, report)
    return report


if __name__ == "__main__":
    main()
