"""What holds for all pictures: where they are drawn, what they leave as it was, and that names are only names."""

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
SAYS = SimpleNamespace(
    classes_=np.array([0, 1]),
    predict_proba=lambda X: np.tile([0.4, 0.6], (len(X), 1)),
    predict=lambda X: np.arange(len(X), dtype=float),
    predict_interval=lambda X, coverage: np.arange(len(X))[:, None] + np.array([-1.0, 1]),
)
CURVE = (np.arange(1, 4), np.ones((3, 2)), np.ones((3, 2)))
CALLS = {
    "calibration": (SAYS, POINTS, np.arange(30) % 2),
    "collection": (POINTS,),
    "contributions": ([POINTS], [POINTS[:, 0]]),
    "distances": (D,),
    "error_against_features": ([10, 100], [0.1, 0.03]),
    "intervals": (SAYS, POINTS, np.arange(30.0)),
    "leaderboard": (ENTRIES,),
    "learning_curve": (CURVE,),
    "sets": ([POINTS],),
    "validation_curve": (CURVE,),
    "witness": (POINTS[:10], POINTS[10:]),
}


def test_every_picture_is_tried_here():
    assert set(CALLS) == set(dk.plot.__all__)


@pytest.mark.parametrize("name", CALLS)
def test_a_picture_is_drawn_where_it_was_asked_for(name):
    ax = Figure().subplots()
    assert getattr(dk.plot, name)(*CALLS[name], ax=ax) is ax
    assert ax.has_data()
    assert plt.get_fignums() == []


@pytest.mark.parametrize("name", CALLS)
def test_a_picture_makes_one_figure_shows_nothing_and_changes_no_setting(name, monkeypatch):
    monkeypatch.setattr(plt, "show", lambda: pytest.fail("shown"))
    before = dict(matplotlib.rcParams)
    ax = getattr(dk.plot, name)(*CALLS[name])
    assert isinstance(ax, Axes)
    assert len(plt.get_fignums()) == 1
    assert dict(matplotlib.rcParams) == before
    ax.figure.canvas.draw()  # warnings, such as of letters that are missing, are errors here


@pytest.mark.parametrize("name", CALLS)
def test_what_are_no_axes_is_refused(name):
    with pytest.raises(TypeError, match="ax must be matplotlib Axes; got str"):
        getattr(dk.plot, name)(*CALLS[name], ax="here")


@pytest.mark.parametrize(
    ("name", "shown"),
    [("a$b$c", r"a\$b\$c"), ("_hidden", " _hidden"), ("two\nlines", "two lines"), ("\x07", "?"), (3, "3")],
)
def test_names_are_only_names(name, shown):
    assert format_label(name) == shown


def test_long_names_are_cut():
    assert len(format_label("x" * 1000)) == MAX_LABEL_CHARACTERS


def test_hostile_classes_are_drawn(bags):
    y = np.array(["$\\frac{", "_private", "<script>"])[np.arange(30) % 3]
    for ax in (dk.plot.collection(np.array([b.mean(axis=0) for b in bags]), y), dk.plot.distances(D, y)):
        ax.figure.canvas.draw()


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setattr("dkdist.plot.find_spec", lambda name: None)
    with pytest.raises(
        ImportError, match=r"dkdist.plot.sets needs matplotlib: pip install 'dkdist\[plots\]'"
    ):
        dk.plot.__getattr__("sets")
    with pytest.raises(AttributeError):
        dk.plot.__getattr__("unknown")


def test_matplotlib_is_loaded_when_something_is_drawn_and_not_before():
    code = "import sys, dkdist as dk; assert 'sets' in dir(dk.plot); assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
