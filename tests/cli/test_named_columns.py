"""Column names are stored on import, and a store with swapped columns is refused in prediction."""

import numpy as np
import pandas as pd

from dkdist.cli import main

RNG = np.random.default_rng(0)


def table(path, columns):
    ids = np.repeat(np.arange(30), 8)
    frame = pd.DataFrame(
        {"donor": ids, "cd3": RNG.normal(ids % 2, 0.2), "cd4": RNG.normal(size=240), "y": ids % 2}
    )
    frame[["donor", *columns, "y"]].to_csv(path, index=False)
    return str(path)


def test_swapped_columns_are_refused(tmp_path, capsys):
    stores, model = {}, str(tmp_path / "m.npz")
    for columns in (["cd3", "cd4"], ["cd4", "cd3"]):
        stores[columns[0]] = str(tmp_path / f"{columns[0]}.zarr")
        csv = table(tmp_path / f"{columns[0]}.csv", columns)
        assert main(["import", csv, stores[columns[0]], "--set-id", "donor", "--target", "y"]) == 0
    assert main(["info", stores["cd4"]]) == 0
    assert "cd4, cd3" in capsys.readouterr().out
    assert main(["fit", stores["cd3"], "--target", "y", "--model", model, "--features", "20"]) == 0
    assert main(["score", stores["cd3"], "--target", "y", "--model", model]) == 0
    capsys.readouterr()
    commands = (
        ["score", stores["cd4"], "--target", "y"],
        ["predict", stores["cd4"], "--output", str(tmp_path / "p.csv")],
    )
    for command in commands:
        assert main([*command, "--model", model]) == 2
        assert (
            "dimensions cd4, cd3, but DivergenceEmbedding was fitted with cd3, cd4" in capsys.readouterr().err
        )
