"""The picture that the README begins with: sets, what is predicted of new ones, and which points say so.

python docs/donors.py     # writes docs/donors.png
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

import dkdist as dk

COLOURS = {"healthy": "#0072b2", "ill": "#d55e00"}
INK = "#1d2733"
N_TRAIN, SHOWN = 60, (0, 6, 7, 1, 4, 2)  # three of each group


def main() -> None:
    sets, y = dk.datasets.make_cells(80, random_state=0)
    model = dk.SetClassifier(random_state=0).fit(sets[:N_TRAIN], y[:N_TRAIN])
    test, truth = sets[N_TRAIN:], y[N_TRAIN:]
    chance = model.predict_proba(test)[:, 1]
    figure = plt.figure(figsize=(13, 4.4), layout="constrained")
    left, middle, right = figure.subfigures(1, 3, width_ratios=(1.15, 0.85, 1), wspace=0.04)
    draw_sets(left, sets, y)
    draw_answers(middle, chance, truth)
    draw_reasons(right, model, test, int(np.argmax(chance)))
    figure.savefig(Path(__file__).with_name("donors.png"), dpi=100)


def draw_sets(figure, sets, y) -> None:
    figure.suptitle("Each donor is a set of cells", color=INK, fontsize=14)
    panels = figure.subplots(2, 3, sharex=True, sharey=True)
    for i, axes in zip(SHOWN, panels.flat, strict=True):
        axes.plot(sets[i][:, 2], sets[i][:, 3], ".", color=COLOURS[y[i]], markersize=2.5, alpha=0.7)
        axes.set_title(f"{y[i]}, {len(sets[i])} cells", fontsize=10, color=INK)
        axes.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("CD8", fontsize=10)
    figure.supylabel("CD38", fontsize=10)


def draw_answers(figure, chance, truth) -> None:
    figure.suptitle("Who is ill, of new donors?", color=INK, fontsize=14)
    axes = figure.subplots()
    order = np.argsort(chance)
    for group, colour in COLOURS.items():
        of_group = np.flatnonzero(truth[order] == group)
        axes.barh(of_group, chance[order][of_group] - 0.5, left=0.5, color=colour, label=group)
    axes.axvline(0.5, color=INK, linewidth=1)
    axes.set(
        xlim=(0, 1),
        yticks=[],
        xlabel="predicted chance of being ill",
        ylabel="20 donors that the model never saw",
    )
    axes.legend(title="in truth", frameon=False, loc="lower right")
    axes.spines[["top", "right", "left"]].set_visible(False)


def draw_reasons(figure, model, test, which) -> None:
    figure.suptitle("Which cells say so?", color=INK, fontsize=14)
    axes = dk.plot.contributions(test, model.explain(test), which, dims=("CD8", "CD38"), ax=figure.subplots())
    axes.set_title("red speaks for ill", loc="left", fontsize=10, color=INK)


if __name__ == "__main__":
    main()
