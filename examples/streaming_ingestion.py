"""Sets that arrive bit by bit: write them with weights, add more another day, and check that all of it is there."""

import tempfile

import numpy as np

import dkdist as dk


def day(seed):
    """One day's batches: 20 sensors, each with a set of readings and how much each reading can be trusted."""
    rng = np.random.default_rng(seed)
    for hour in range(24):
        readings = [rng.normal(hour / 24, 0.2, (int(rng.integers(50, 200)), 3)) for _ in range(20)]
        trust = [rng.uniform(0.1, 1, len(r)) for r in readings]
        names = [f"day {seed}, hour {hour}, sensor {i}" for i in range(20)]
        yield dk.SampleSets.from_arrays(readings, trust), {"hour": np.full(20, hour)}, names


with tempfile.TemporaryDirectory() as folder:
    store = f"{folder}/readings.zarr"
    with dk.SetWriter(store, n_dims=3) as writer:  # nothing is visible before the block ends
        for sets, targets, names in day(1):
            writer.append(sets, targets, names)
    with dk.SetWriter(store, n_dims=3, mode="a") as writer:  # whoever reads meanwhile sees day 1
        for sets, targets, names in day(2):
            writer.append(sets, targets, names)

    sets = dk.open_sets(store)
    report = sets.verify()  # reads every chunk, and raises if a single bit is wrong
    print(f"{report.n_sets} sets of {report.n_points} points in {report.n_chunks} chunks, all good")
    noon = sets[sets.targets["hour"] == 12]
    print(f"{len(noon)} sets at noon, the first of {noon.sizes[0]} points: {noon.ids[0]}")
