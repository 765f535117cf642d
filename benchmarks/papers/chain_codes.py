"""Chain codes of the contours of all MNIST digits, for `distances.py`: mnist_str4_60000.npz, mnist_str8_60000.npz.

    DKDIST_DATA=... python benchmarks/papers/chain_codes.py FOLDER --output FOLDER

The first FOLDER is demo/mnist of https://github.com/taneishi/convnetjs: mnist_labels.js, and mnist_batch_0.png to
mnist_batch_20.png with a digit per row, 60,000 training and the first 3,000 test digits in the order of MNIST. The
strings of all 10,000 test digits are those of mnist_str4.npz and mnist_str8.npz in DKDIST_DATA; the script checks the
first 3,000 of them.

A shape is the largest component (8 neighbours) of the pixels of at least half of the largest value. Its outer contour
starts at the leftmost pixel of the top row and is followed clockwise. Codes count clockwise from 0 (right): eight
directions of steps between pixels (Freeman 1961), or four directions of steps along the edges of pixels.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from distance_tasks import TASKS
from scipy.ndimage import label
from study import data_file

STEPS = ((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1))  # (row, column)
N_BATCHES, N_TRAINING, SIDE = 21, 60_000, 28
# Half of the maximum: the PNG files contain 255/256 of the values of MNIST, rounded down.
MIN_PIXEL_VALUE = 127


def largest_component(mask: np.ndarray) -> np.ndarray:
    labels, _ = label(mask, np.ones((3, 3)))
    return labels == 1 + np.bincount(labels.ravel())[1:].argmax()


def steps_between_pixels(mask: np.ndarray) -> list[int]:
    """Return the codes in eight directions by Moore neighbours; no code for a single pixel."""
    pixels = np.pad(mask, 1)
    first = row, column = tuple(np.argwhere(pixels)[0])
    background, codes = 4, list[int]()  # direction of the background pixel from which the search starts
    while pixels.sum() > 1:
        turn = (background + np.arange(1, 9)) % 8
        code = next(int(d) for d in turn if pixels[row + STEPS[d][0], column + STEPS[d][1]])
        if codes and (row, column) == first and code == codes[0]:
            break
        codes.append(code)
        row, column = row + STEPS[code][0], column + STEPS[code][1]
        background = (code + (5 if code % 2 else 6)) % 8
    return codes


def steps_along_edges(mask: np.ndarray) -> list[int]:
    """Return the codes in four directions, with the shape on the right; diagonal pixels are connected."""
    pixels = np.pad(mask, 1)
    row, column = first = tuple(np.argwhere(pixels)[0])  # upper left corner of this pixel
    code, codes = 0, list[int]()
    while not codes or (row, column) != first or code != 0:
        codes.append(code)
        row, column = row + STEPS[2 * code][0], column + STEPS[2 * code][1]
        corners = (row - 1, column), (row, column), (row, column - 1), (row - 1, column - 1)
        if pixels[corners[code]]:  # ahead on the left
            code = (code + 3) % 4
        elif not pixels[corners[(code + 1) % 4]]:  # ahead on the right
            code = (code + 1) % 4
    return codes


def read_images(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return images (63,000, 28, 28) uint8 and labels (70,000,)."""
    from PIL import Image

    files = [folder / f"mnist_batch_{k}.png" for k in range(N_BATCHES)]
    images = np.concatenate([np.asarray(Image.open(file))[..., 0] for file in files])
    text = (folder / "mnist_labels.js").read_text()
    labels = json.loads(text[text.index("[") : text.rindex("]") + 1])
    return images.reshape(-1, SIDE, SIDE), np.array(labels, np.int32)


def test_strings(name: str) -> list[np.ndarray]:
    """Return the strings of the test digits, which follow 5,000 training digits in NAME.npz."""
    with np.load(data_file(f"{name}.npz", TASKS[name].sha256, TASKS[name].source)) as data:
        return np.split(data["values"], data["offsets"][1:-1])[5000:]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    images, labels = read_images(args.folder)
    shapes = [largest_component(image >= MIN_PIXEL_VALUE) for image in images]
    for name, trace in (("mnist_str8", steps_between_pixels), ("mnist_str4", steps_along_edges)):
        strings = [np.array(trace(shape), np.uint8) for shape in shapes]
        known = test_strings(name)
        if any(not np.array_equal(a, b) for a, b in zip(strings[N_TRAINING:], known, strict=False)):
            raise ValueError(f"{args.folder} must contain the images of {name}.npz; got other contours.")
        strings = strings[:N_TRAINING] + known
        np.savez_compressed(
            args.output / f"{name}_60000.npz",
            values=np.concatenate(strings),
            offsets=np.cumsum([0, *map(len, strings)]),
            labels=labels,
            is_test=np.arange(len(strings)) >= N_TRAINING,
        )


if __name__ == "__main__":
    main()
