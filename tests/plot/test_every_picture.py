"""Properties of all plots: axes, figures and settings, and escaped labels."""

import subprocess
import sys
from types import SimpleNamespace

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import dkdist as dk
from dkdist.plot._canvas import format_label
from dkdist.plot._tuning import MAX_LABEL_CHARACTERS

RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(30, 2)).astype("f4")
D = np.linalg.norm(POINTS[:, None] - POINTS, axis=-1)
ENTRIES = [
    {"name": "this model", "score": 0.9, "std_error": 0.01, "baseline": False},
    {"name": "means", "score": 0.7, "std_error": 0.02, "baseline": True},
]
MODEL = SimpleNamespace(
    classes_=np.array([0, 1]),
    predict_proba=lambda X: np.tile([0.4, 0.6], (len(X), 1)),
    predict=lambda X: np.arange(len(X), dtype=float),
    predict_interval=lambda X, coverage: np.arange(len(X))[:, None] + np.array([-1.0, 1]),
)
CURVE = (np.arange(1, 4), np.ones((3, 2)), np.ones((3, 2)))
CALLS = {
    "calibration": (MODEL, POINTS, np.arange(30) % 2),
    "collection": (POINTS,),
    "contributions": ([POINTS], [POINTS[:, 0]]),
    "distances": (D,),
    "error_against_features": ([10, 100], [0.1, 0.03]),
    "intervals": (MODEL, POINTS, np.arange(30.0)),
    "leaderboard": (ENTRIES,),
    "learning_curve": (CURVE,),
    "sets": ([POINTS],),
    "validation_curve": (CURVE,),
    "witness": (POINTS[:10], POINTS[10:]),
}


def test_all_plot_functions_are_tested():
    assert set(CALLS) == set(dk.plot.__all__)


@pytest.mark.parametrize("name", CALLS)
def test_plots_use_the_given_axes(name):
    ax = Figure().subplots()
    assert getattr(dk.plot, name)(*CALLS[name], ax=ax) is ax
    assert ax.has_data()
    assert plt.get_fignums() == []


@pytest.mark.parametrize("name", CALLS)
def test_plots_create_one_figure_and_keep_settings(name, monkeypatch):
    monkeypatch.setattr(plt, "show", lambda: pytest.fail("shown"))
    params_before = dict(matplotlib.rcParams)
    ax = getattr(dk.plot, name)(*CALLS[name])
    assert isinstance(ax, Axes)
    assert len(plt.get_fignums()) == 1
    assert dict(matplotlib.rcParams) == params_before
    ax.figure.canvas.draw()  # warnings, for example of missing glyphs, are errors


@pytest.mark.parametrize("name", CALLS)
def test_invalid_axes_raise(name):
    with pytest.raises(TypeError, match="ax must be matplotlib Axes; got str"):
        getattr(dk.plot, name)(*CALLS[name], ax="here")


@pytest.mark.parametrize(
    ("name", "label"),
    [("a$b$c", r"a\$b\$c"), ("_hidden", " _hidden"), ("two\nlines", "two lines"), ("\x07", "?"), (3, "3")],
)
def test_format_label_escapes_names(name, label):
    assert format_label(name) == label


def test_long_labels_are_truncated():
    assert len(format_label("x" * 1000)) == MAX_LABEL_CHARACTERS


def test_class_names_with_special_characters_are_drawn(bags):
    y = np.array(["$\\frac{", "_private", "<script>"])[np.arange(30) % 3]
    for ax in (dk.plot.collection(np.array([b.mean(axis=0) for b in bags]), y), dk.plot.distances(D, y)):
        ax.figure.canvas.draw()


def test_missing_matplotlib_raises_with_install_command(monkeypatch):
    monkeypatch.setattr("dkdist.plot.find_spec", lambda name: None)
    with pytest.raises(
        ImportError, match=r"dkdist.plot.sets needs matplotlib: pip install 'dkdist\[plots\]'"
    ):
        dk.plot.__getattr__("sets")
    with pytest.raises(AttributeError):
        dk.plot.__getattr__("unknown")


def test_matplotlib_is_imported_lazily():
    code = "import sys, dkdist as dk; assert 'sets' in dir(dk.plot); assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
