"""
Times to an event
=================

Patients are observed until they relapse, or until the study ends. A patient without a relapse so far has a *censored*
time: the relapse, if any, is later.

In this simulation each patient has 200 cells with three markers. The larger the fraction of active cells, the earlier
the relapse.
"""

import numpy as np
from matplotlib import pyplot as plt

import dkdist as dk

rng = np.random.default_rng(0)
n_patients = 240
active_fraction = rng.beta(2, 5, n_patients)
cells = []
for fraction in active_fraction:
    points = rng.normal(0, 1, (200, 3))
    points[rng.random(200) < fraction] += [2.5, 0, 2.5]  # active cells have more CD38 and HLA-DR
    cells.append(points)

# %%
# Half of the patients relapse within ``months``. The study lasts two years, and some patients leave earlier.

months = rng.exponential(30 * np.exp(-7 * active_fraction)) * 3
end = np.minimum(24, rng.exponential(60, n_patients))
y = np.array(
    list(zip(months <= end, np.minimum(months, end), strict=True)),
    dtype=[("relapse", bool), ("months", float)],
)
print(f"{y['relapse'].sum()} of {n_patients} patients relapsed; the others are censored")

# %%
# ``y`` has the form of scikit-survival: a bool, True for the event, then the time. The model selects a representation
# of the cells and evaluates itself on held-out patients. Its score is the *concordance*: of all pairs in which one
# patient is known to relapse earlier, the fraction in which this patient has the larger risk score. Chance is 0.5.

sets = dk.SampleSets.from_arrays(cells, names=["CD38", "CD4", "HLA-DR"])
model = dk.SetSurvival(["means", "moments", "hellinger"], random_state=0).fit(sets[:140], y[:140])
print(model.summary())

# %%
# On new patients:

new, y_new = sets[140:], y[140:]
risk = model.predict(new)
print(f"concordance on new patients: {model.score(new, y_new):.2f}")

# %%
# Survival curves are probabilities of no relapse up to each time. Lower bounds are times that 90 % of the patients
# exceed. In a simulation, the times of all relapses are known:

curves = model.predict_survival_function(new)
bounds = model.predict_lower_bound(new, coverage=0.9)
print(f"relapses after the lower bound: {(months[140:] >= bounds).mean():.2f}")

# %%
# Which cells increase the risk? Contributions of points sum to the risk score of their patient.

patient = int(np.argmax(risk))
contributions = model.explain(new[patient : patient + 1])[0]

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
order = np.argsort(risk)
for label, position, color in (
    ("lowest risk", 0, "#2b6cb0"),
    ("median", 50, "#8a94a0"),
    ("highest risk", -1, "#c05621"),
):
    i = order[position]
    left.step(
        np.append(0, model.unique_times_), np.append(1, curves[i]), where="post", label=label, color=color
    )
    left.plot(bounds[i], 0.9, "o", color=color)
left.set(
    xlabel="months", ylabel="probability of no relapse", ylim=(0, 1.02), title="Curves, and 90 % lower bounds"
)
left.legend()
points = cells[140 + patient]
limit = np.abs(contributions).max()
dots = right.scatter(
    points[:, 0], points[:, 2], c=contributions, s=12, cmap="RdBu_r", vmin=-limit, vmax=limit
)
right.set(xlabel="CD38", ylabel="HLA-DR", title="Cells of the patient with the highest risk")
figure.colorbar(dots, label="contribution to the risk score")
