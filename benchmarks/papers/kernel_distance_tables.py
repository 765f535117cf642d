"""Tables and figure of `kernel_distance.py`: cells, growth with n, error by time."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

MIN_GROWTH_POINTS = 10_000  # growth is fitted to sizes from here on, if there are two
MIN_DRAWN_ERROR = 1e-16  # smaller errors are drawn here
SUMMARY_LABELS = {"least": "minimum", "median": "median", "most": "maximum"}  # by key of the JSON file


def print_cells(cells: list[dict[str, Any]]) -> None:
    """Print one line per method: seconds and error for each eps."""
    first = cells[0]
    print(
        f"  n = {first['n']:,}, d = {first['d']}, sigma = {first['sigma']}; reference: {first['reference']}",
        flush=True,
    )
    for method, group in groupby(cells, key=lambda cell: cell["method"]):
        parts = [describe(cell) for cell in group]
        print(f"    {method:<8} " + "   ".join(f"{part:<24}" for part in parts), flush=True)


def describe(cell: dict[str, Any]) -> str:
    """Return the result of a cell as text."""
    eps = "" if cell["method"] == "exact" else f"{cell['eps']:.0e}: "
    if "cut" in cell:
        return f"{eps}cut at {cell['cut']:.3g} s"
    if "refused" in cell:
        return f"{eps}refused"
    error = f" {cell['error']:.0e}" if "error" in cell else ""
    return f"{eps}{cell['seconds']:.3g} s{error}"


def slopes(cells: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return by method the exponents of time over n for every d, sigma and eps, and their summary."""
    result: dict[str, list[dict[str, Any]]] = {}
    for cell in cells:
        result.setdefault(cell["method"], []).append(cell)
    return {method: _slopes(group) for method, group in result.items()}


def _slopes(cells: list[dict[str, Any]]) -> dict[str, Any]:
    exponents, key = [], lambda cell: (cell["d"], cell["sigma"], cell["eps"])
    for (d, sigma, eps), group in groupby(sorted(cells, key=key), key=key):
        timed = [(cell["n"], cell["seconds"]) for cell in group if "value" in cell]
        large = [row for row in timed if row[0] >= MIN_GROWTH_POINTS]
        rows = np.log(large if len(large) > 1 else timed)
        if len(rows) > 1:
            exponents.append(
                {
                    "d": d,
                    "sigma": sigma,
                    "eps": eps,
                    "exponent": float(np.polyfit(*rows.T, 1)[0]),
                }
            )
    values = [row["exponent"] for row in exponents]
    summary = (
        dict(zip(SUMMARY_LABELS, np.quantile(values, [0, 0.5, 1]).tolist(), strict=True)) if values else {}
    )
    cut = sum("cut" in cell for cell in cells)
    refused = sum("refused" in cell for cell in cells)
    return {"fits": exponents, "cells": len(cells), "cut": cut, "refused": refused, **summary}


def print_markdown(cells: list[dict[str, Any]], sizes: tuple[int, ...], eps: float) -> None:
    """Print the tables of the documentation: seconds and error of D^2 for one eps, and growth."""
    methods = list(dict.fromkeys(cell["method"] for cell in cells))
    for n in sizes:
        print(f"\nn = {n:,} points each, eps = {eps:.0e}: seconds, error of D^2\n")
        print("| d | sigma | " + " | ".join(methods) + " |\n" + "|---" * (len(methods) + 2) + "|")
        for d, sigma in dict.fromkeys((cell["d"], cell["sigma"]) for cell in cells):
            selected = [c for c in cells if (c["n"], c["d"], c["sigma"]) == (n, d, sigma)]
            row = {c["method"]: c for c in selected if c["eps"] == eps or c["method"] == "exact"}
            print(f"| {d} | {sigma} | " + " | ".join(entry(row[method]) for method in methods) + " |")
    growth = slopes(cells)
    print("\n| | " + " | ".join(methods) + " |\n" + "|---" * (len(methods) + 1) + "|")
    for name, label in SUMMARY_LABELS.items():
        print(f"| {label} | " + " | ".join(exponent(growth[m], name) for m in methods) + " |")
    for name in ("cells", "cut", "refused"):
        print(f"| {name} | " + " | ".join(str(growth[m][name]) for m in methods) + " |")


def exponent(row: dict[str, Any], name: str) -> str:
    return f"{row[name]:.2f}" if name in row else "-"


def entry(cell: dict[str, Any]) -> str:
    """Return the text of a cell for the documentation."""
    if "cut" in cell:
        return f"cut: {cell['cut']:.2g} s"
    if "refused" in cell:
        return "refused"
    error = f", {cell['error']:.0e}" if cell.get("error") else ""
    return f"{cell['seconds']:.2g}{error}"


def print_refusals(cells: list[dict[str, Any]]) -> None:
    """Print the first refusal of each method in each dimension."""
    print("  refused, for example")
    first = {(cell["method"], cell["d"]): cell for cell in reversed(cells) if "refused" in cell}
    for (method, d), cell in sorted(first.items()):
        print(f"    {method}, d = {d}, sigma = {cell['sigma']}, eps = {cell['eps']:.0e}: {cell['refused']}")


def print_growth(growth: dict[str, dict[str, Any]]) -> None:
    """Print exponents, and numbers of cells that were cut and refused."""
    print("  growth with n     min  median     max   cells     cut refused")
    for method, row in growth.items():
        values = "".join(f" {row.get(name, np.nan):>7.2f}" for name in SUMMARY_LABELS)
        print(f"  {method:<13}{values} {row['cells']:>7} {row['cut']:>7} {row['refused']:>7}")


def draw(cells: list[dict[str, Any]], n: int, file: Path) -> None:
    """Draw error by seconds at n points: a row per dimension, a column per sigma, a line per method over eps."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    selected = [cell for cell in cells if cell["n"] == n and "error" in cell]
    dims, widths = (sorted({cell[key] for cell in selected}) for key in ("d", "sigma"))
    shape = (len(dims), len(widths))
    figure, panels = plt.subplots(
        *shape, figsize=(9, 7), layout="constrained", squeeze=False, sharex=True, sharey=True
    )
    colours = {method: f"C{k}" for k, method in enumerate(dict.fromkeys(cell["method"] for cell in cells))}
    lines: dict[str, Any] = {}
    for (row, column), panel in np.ndenumerate(panels):
        panel_cells = [cell for cell in selected if (cell["d"], cell["sigma"]) == (dims[row], widths[column])]
        for method, colour in colours.items():
            points = [
                (c["seconds"], max(c["error"], MIN_DRAWN_ERROR)) for c in panel_cells if c["method"] == method
            ]
            if points:
                (lines[method],) = panel.plot(*zip(*points, strict=True), "o-", color=colour, ms=4, lw=1)
        panel.set(xscale="log", yscale="log", title=f"d = {dims[row]}, sigma = {widths[column]}")
        panel.grid(alpha=0.3)
    figure.supxlabel(f"seconds, two sets of {n:,} points, one thread")
    figure.supylabel("error of D^2 (exact: 0, drawn at 1e-16)")
    figure.legend(lines.values(), lines.keys(), loc="outside upper center", ncols=len(lines))
    figure.savefig(file, dpi=80)
    plt.close(figure)
