"""Write sets with weights in batches, append more later, and verify the store."""

import tempfile

import numpy as np

import dkdist as dk


def day(seed):
    """Yield the hourly batches of a day: 20 sensors, each with a set of weighted readings."""
    rng = np.random.default_rng(seed)
    for hour in range(24):
        readings = [rng.normal(hour / 24, 0.2, (int(rng.integers(50, 200)), 3)) for _ in range(20)]
        weights = [rng.uniform(0.1, 1, len(r)) for r in readings]
        names = [f"day {seed}, hour {hour}, sensor {i}" for i in range(20)]
        yield dk.SampleSets.from_arrays(readings, weights), {"hour": np.full(20, hour)}, names


with tempfile.TemporaryDirectory() as folder:
    store = f"{folder}/readings.zarr"
    with dk.SetWriter(store, n_dims=3) as writer:  # the data are visible after the end of the block
        for sets, targets, names in day(1):
            writer.append(sets, targets, names)
    with dk.SetWriter(store, n_dims=3, mode="a") as writer:  # other processes still read day 1
        for sets, targets, names in day(2):
            writer.append(sets, targets, names)

    sets = dk.open_sets(store)
    report = sets.verify()  # reads every chunk and raises an error if a checksum is wrong
    print(f"{report.n_sets} sets of {report.n_points} points in {report.n_chunks} chunks, all valid")
    noon = sets[sets.targets["hour"] == 12]
    print(f"{len(noon)} sets at noon, the first of {noon.sizes[0]} points: {noon.ids[0]}")
