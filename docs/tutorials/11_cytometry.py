"""
Cytometry from FCS files
========================

Flow cytometers write one FCS file for each sample. The files hold raw intensities: detectors see light of several
stains, and values span decades. This tutorial imports files with compensation and a scale, classifies the donors, and
finds the cells that decide.
"""

import tempfile
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from sklearn.model_selection import train_test_split

import dkdist as dk

# %%
# Files for the example: 80 simulated donors with four stains. The spillover matrix has a row for each stain, with the
# fraction of its light that each detector sees. Instruments store this matrix in the file.

spillover = np.array([[1, 0.25, 0.05, 0], [0.1, 1, 0.2, 0.02], [0, 0.3, 1, 0.1], [0, 0.02, 0.15, 1]])
detectors, stains = ["FL1-A", "FL2-A", "FL3-A", "FL4-A"], ["CD3", "CD4", "CD8", "CD38"]


def write_fcs(path, events):
    """Write float32 events of the scatter and the four detectors, by the FCS 3.1 standard."""
    channels = ["FSC-A", *detectors]
    text = {
        "$TOT": len(events),
        "$PAR": 5,
        "$DATATYPE": "F",
        "$MODE": "L",
        "$BYTEORD": "1,2,3,4",
        "$NEXTDATA": 0,
    }
    for i, (name, stain) in enumerate(zip(channels, ["", *stains], strict=True), 1):
        text |= {f"$P{i}N": name, f"$P{i}B": 32, f"$P{i}E": "0,0", f"$P{i}R": 262144}
        text |= {f"$P{i}S": stain} if stain else {}
    text["$SPILLOVER"] = ",".join(map(str, [4, *detectors, *spillover.ravel()]))
    begin = 2048
    text |= {"$BEGINDATA": begin, "$ENDDATA": begin + 20 * len(events) - 1}
    body = "|" + "".join(f"{key}|{value}|" for key, value in text.items())
    header = f"FCS3.1    {58:8}{57 + len(body):8}{begin:8}{begin + 20 * len(events) - 1:8}{0:8}{0:8}"
    path.write_bytes((header + body).ljust(begin).encode() + events.astype("<f4").tobytes())


folder = Path(tempfile.mkdtemp())
simulated, group = dk.datasets.make_cells(80, random_state=0)
rng = np.random.default_rng(0)
for donor, markers in zip(simulated.ids, simulated, strict=True):
    light = 150 * np.sinh(markers) @ spillover + rng.normal(0, 20, markers.shape)
    write_fcs(folder / f"{donor}.fcs", np.column_stack([rng.normal(9e4, 1e4, len(light)), light]))

# %%
# Import the files
# ----------------
#
# ``compensation="file"`` removes the spillover by the matrix of each file. ``transform="arcsinh"`` divides by the
# cofactor, here 150, and takes the inverse hyperbolic sine, which is linear near zero and logarithmic far from it;
# ``transform="logicle"`` is the scale of Gating-ML. Scatter would stay linear; here only the stains are chosen.

paths = sorted(folder.glob("*.fcs"))
raw = dk.import_sets(folder / "raw.zarr", paths, dk.CytometryReader(stains, transform="arcsinh"))
reader = dk.CytometryReader(stains, compensation="file", transform="arcsinh", cofactor=150)
sets = dk.import_sets(folder / "cells.zarr", paths, reader)
print(sets)
print(sets.names, sets.ids[:3])

figure, axes = plt.subplots(1, 2, figsize=(8, 4), sharex=True, sharey=True, layout="constrained")
for ax, collection, title in zip(axes, (raw, sets), ("spillover", "compensated"), strict=True):
    cells = np.concatenate(list(collection[:10]))
    ax.plot(cells[:, 1], cells[:, 2], ".", markersize=2, alpha=0.4)
    ax.set(title=title, xlabel="arcsinh of CD4", ylabel="arcsinh of CD8")

# %%
# With spillover, CD4 cells seem to carry CD8. After compensation, helper cells (CD4) and killer cells (CD8) are apart.
#
# Classify the donors
# -------------------
#
# Diagnoses belong to ids, which are the names of the files. A Series of pandas with these names as its index would be
# joined to them; here the order is that of the simulation, so sort it.

diagnosis = group[np.argsort(simulated.ids)]
train, test = train_test_split(np.arange(len(sets)), test_size=20, stratify=diagnosis, random_state=0)
model = dk.SetClassifier(random_state=0).fit(sets[train], diagnosis[train])
print(f"accuracy on held-out donors: {model.score(sets[test], diagnosis[test]):.2f}")

# %%
# Which cells decide? ``explain`` divides the prediction of a donor among its cells.

held_out = sets[test]
contributions = model.explain(held_out)
ill = int(np.flatnonzero(diagnosis[test] == "ill")[0])
axes = dk.plot.contributions(held_out, contributions, ill, dims=("CD8", "CD38"))

# %%
# Cells that are high in both CD8 and CD38, active killer T cells, speak for the disease. The same import from the
# command line, with all files of a folder:
#
# .. code-block:: sh
#
#     dkdist import samples cells.zarr --points CD3,CD4,CD8,CD38 --compensate --transform arcsinh --cofactor 150
