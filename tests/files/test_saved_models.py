"""Models that earlier versions saved are read by this one, and predict what they predicted."""

from pathlib import Path

import numpy as np
import pytest

import dkdist as dk

from .saved_models import ANSWERS

SAVED = sorted((Path(__file__).parent / "saved").glob("*/*.expected.npz"))


def test_every_version_has_left_some():
    assert len(SAVED) >= 6 * len({path.parent for path in SAVED}) > 0


@pytest.mark.parametrize("path", SAVED, ids=lambda path: f"{path.parent.name} {path.name.split('.')[0]}")
def test_a_saved_model_predicts_what_it_did(path):
    with np.load(path) as file:
        kept = dict(file)
    sets = kept["words"].tolist() if "words" in kept else dk.SampleSets(kept["points"], kept["offsets"])
    model = dk.load_model(path.with_name(path.name.replace(".expected", "")))
    if "expected" in kept:  # the name of predictions in files of older models
        kept["predict"] = kept.pop("expected")
    for name in kept.keys() & set(ANSWERS):
        result, expected = np.asarray(getattr(model, name)(sets)), kept[name]
        if (
            expected.dtype.kind == "f"
        ):  # features are float32, and a ridge solution has the condition of its rows
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
        else:
            assert result.tolist() == expected.tolist()
