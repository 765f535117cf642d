"""Task names, colours and spans of dkdist in the diagnostics of a cluster."""

from __future__ import annotations

import itertools

import pytest
from dask.utils import key_split
from distributed import span
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.utils import color_of

import dkdist as dk
from dashboard.models import local_client, ridge, sgd

DRAWN = {"divergence_embedding_parameters", "random_fourier_features_parameters"}
FEATURES = {"validate_sets", "sampled_rows"}
STAGES = {
    "sgd": {*FEATURES, "sgd_step_size", "sgd_block", "sgd_step", "predict"},
    "lanes": {*FEATURES, "sgd_step_size", "sgd_lane_part", "sgd_lane_step"},
    "ridge": {*FEATURES, "ridge_gram_part", "ridge_gram_sum", "ridge_loo_block", "ridge_loo_step"},
    "write": {"write"},
    "search": {
        *FEATURES,
        "sgd_step_size",
        "search_block",
        "search_step",
        "grams_part",
        "grams_sum",
        "search_score",
    },
    "pairs": {"pairs"},
}


class Names(SchedulerPlugin):
    """Records the prefixes of finished tasks, except tasks that only send a function."""

    name = "names"

    def __init__(self):
        self.seen = set()

    def transition(self, key, start, finish, *args, **kwargs):
        if finish == "memory" and not key_split(key).endswith(("_shared", "_done")):
            self.seen.add(key_split(key))


@pytest.fixture(scope="module")
def client():
    with local_client(2, 1) as client:
        yield client


def runs(sets, folder):
    y = sets.targets["y"]
    features = sgd().fit(sets[:60], y[:60])[:-1]
    return {
        "sgd": lambda: sgd(n_epochs=2).fit(sets, y).predict(sets),
        "lanes": lambda: sgd(n_epochs=2, n_lanes=2).fit(sets, y),
        "ridge": lambda: ridge(selection="leave-one-out").fit(sets, y),
        "search": lambda: search(sets, y),
        "pairs": lambda: dk.divergence_matrix(sets[:20], k=2),
        "write": lambda: dk.write_features(folder, features.transform(sets)),
    }


def search(sets, y):
    model = sgd(n_epochs=1)
    grid = {model.steps[-1][0]: [model[-1], ridge()[-1]]}
    dk.OnePassSearch(model, grid, random_state=0, refit=False).fit(sets, y)


@pytest.mark.parametrize("run_name", STAGES)
def test_task_prefixes_are_stages(run_name, client, sets, tmp_path, monkeypatch):
    monkeypatch.setattr("dkdist.linear.epochs.ROUND_OVERHEAD_BYTES", 1)  # parallel replicas
    run = runs(sets, tmp_path / "f.zarr")[run_name]
    plugin = Names()
    client.cluster.scheduler.add_plugin(plugin)
    run()
    client.cluster.scheduler.remove_plugin(plugin.name)
    assert plugin.seen - DRAWN == STAGES[run_name]


@pytest.mark.parametrize("run_name", STAGES)
def test_concurrent_stages_have_different_colours(run_name):
    colours = [color_of(name) for name in STAGES[run_name]]
    assert len(set(colours)) == len(colours)


def spans_below(client, span_id):
    """Return (name, span) of the runs of dkdist inside a span of the user, in order."""
    (root,) = client.cluster.scheduler.extensions["spans"].spans[span_id].children
    assert root.name[1:] == ("dkdist",)
    return [(child.name[-1], child) for child in root.children]


def test_fit_and_earlier_stages_have_separate_spans(client, sets):
    model, y = sgd(n_epochs=10), sets.targets["y"]  # 150 batches: many graphs
    with span("my study") as study:
        model.fit(sets, y)
        model.predict(sets)
    names, spans = zip(*spans_below(client, study), strict=True)
    assert names == (
        "validate_sets",
        "sampled_rows",
        "sgd_step_size",
        "fit IncrementalSGDClassifier",
        "predict",
    )
    steps = [group for group in spans[3].groups if key_split(group.name) == "sgd_step"]
    # tasks of several batches each, and tasks of states
    assert 10 < sum(len(group) for group in steps) <= 150 + 38


def test_fits_of_a_client_have_one_parent_span(client, sets):
    X, y = ridge().fit(sets, sets.targets["y"])[:-1].transform(sets), sets.targets["y"]
    spans_by_name = client.cluster.scheduler.extensions["spans"].spans_search_by_name
    before = len(spans_by_name["dkdist", "fit IncrementalRidgeClassifier"])
    for _ in range(2):
        ridge()[-1].fit(X, y)
    assert len(spans_by_name["dkdist", "fit IncrementalRidgeClassifier"]) == before + 2
    assert len(spans_by_name[("dkdist",)]) == 1
    assert not spans_by_name[("default",)]


def test_stage_names_fit_into_progress_bars():
    long = {name for name in itertools.chain(*STAGES.values()) if len(name) > 15}
    assert long <= {"ridge_gram_sum"}


class RecordedGraphs(SchedulerPlugin):
    """Records keys and annotations of graphs."""

    name = "recorded-graphs"

    def __init__(self):
        self.texts = []

    def update_graph(self, scheduler, *, tasks, annotations, **kwargs):
        self.texts += [str(tasks), str(annotations)]


def test_names_do_not_reveal_data_paths(client, store, sets):
    plugin = RecordedGraphs()
    client.cluster.scheduler.add_plugin(plugin)
    sgd(n_epochs=1).fit(sets, sets.targets["y"])
    client.cluster.scheduler.remove_plugin(plugin.name)
    text = " ".join(plugin.texts) + str(client.get_events("dkdist"))
    assert "fit IncrementalSGDClassifier" in text
    assert "sgd_block" in text
    assert store.name not in text
    assert store.parent.name not in text
