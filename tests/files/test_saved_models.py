"""Models saved by earlier versions load and give the same predictions."""

from pathlib import Path

import numpy as np
import pytest

import dkdist as dk

from .saved_models import PREDICTION_METHODS

SAVED = sorted((Path(__file__).parent / "saved").glob("*/*.expected.npz"))


def test_every_version_has_saved_models():
    assert len(SAVED) >= 6 * len({path.parent for path in SAVED}) > 0


@pytest.mark.parametrize("path", SAVED, ids=lambda path: f"{path.parent.name} {path.name.split('.')[0]}")
def test_a_saved_model_gives_its_original_predictions(path):
    with np.load(path) as file:
        kept = dict(file)
    sets = kept["words"].tolist() if "words" in kept else dk.SampleSets(kept["points"], kept["offsets"])
    model = dk.load_model(path.with_name(path.name.replace(".expected", "")))
    if "expected" in kept:  # older files have another name for predictions
        kept["predict"] = kept.pop("expected")
    methods = kept.keys() & set(PREDICTION_METHODS)
    assert methods
    for name in methods:
        result, expected = np.asarray(getattr(model, name)(sets)), kept[name]
        if expected.dtype.kind == "f":  # float32 features; the error grows with the condition number
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
        else:
            assert result.tolist() == expected.tolist()
