"""Figure of the README: sets, predictions for new sets, and contributions of their points.

python docs/donors.py     # writes docs/donors.png
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

import dkdist as dk

COLOURS = {"healthy": "#0072b2", "ill": "#d55e00"}
INK = "#1d2733"
N_TRAIN, DRAWN_DONORS = 60, (0, 6, 7, 1, 4, 2)  # three of each group


def main() -> None:
    sets, y = dk.datasets.make_cells(80, random_state=0)
    model = dk.SetClassifier(random_state=0).fit(sets[:N_TRAIN], y[:N_TRAIN])
    test, truth = sets[N_TRAIN:], y[N_TRAIN:]
    probabilities = model.predict_proba(test)[:, 1]
    figure = plt.figure(figsize=(13, 4.4), layout="constrained")
    left, middle, right = figure.subfigures(1, 3, width_ratios=(1.15, 0.85, 1), wspace=0.04)
    draw_sets(left, sets, y)
    draw_predictions(middle, probabilities, truth)
    draw_contributions(right, model, test, int(np.argmax(probabilities)))
    figure.savefig(Path(__file__).with_name("donors.png"), dpi=100)


def draw_sets(figure, sets, y) -> None:
    figure.suptitle("Each donor is a set of cells", color=INK, fontsize=14)
    panels = figure.subplots(2, 3, sharex=True, sharey=True)
    for i, axes in zip(DRAWN_DONORS, panels.flat, strict=True):
        axes.plot(sets[i][:, 2], sets[i][:, 3], ".", color=COLOURS[y[i]], markersize=2.5, alpha=0.7)
        axes.set_title(f"{y[i]}, {len(sets[i])} cells", fontsize=10, color=INK)
        axes.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("CD8", fontsize=10)
    figure.supylabel("CD38", fontsize=10)


def draw_predictions(figure, probabilities, truth) -> None:
    figure.suptitle("Predictions for new donors", color=INK, fontsize=14)
    axes = figure.subplots()
    order = np.argsort(probabilities)
    for group, colour in COLOURS.items():
        positions = np.flatnonzero(truth[order] == group)
        axes.barh(positions, probabilities[order][positions] - 0.5, left=0.5, color=colour, label=group)
    axes.axvline(0.5, color=INK, linewidth=1)
    axes.set(
        xlim=(0, 1),
        yticks=[],
        xlabel="predicted probability of being ill",
        ylabel="20 donors of the test set",
    )
    axes.legend(title="true group", frameon=False, loc="lower right")
    axes.spines[["top", "right", "left"]].set_visible(False)


def draw_contributions(figure, model, test, donor) -> None:
    figure.suptitle("Contributions of the cells of a donor", color=INK, fontsize=14)
    axes = dk.plot.contributions(test, model.explain(test), donor, dims=("CD8", "CD38"), ax=figure.subplots())
    axes.set_title("red: more probably ill", loc="left", fontsize=10, color=INK)


if __name__ == "__main__":
    main()
