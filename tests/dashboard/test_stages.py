"""What a cluster's own diagnostics call the work of dkdist: task names, their colours, spans."""

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
FEATURES = {"survey", "sampled_rows"}
STAGES = {
    "sgd": {*FEATURES, "sgd_step_size", "sgd_block", "sgd_step", "predict"},
    "lanes": {*FEATURES, "sgd_step_size", "sgd_lane_leaf", "sgd_lane_merge"},
    "ridge": {*FEATURES, "ridge_gram_leaf", "ridge_gram_merge", "ridge_loo_block", "ridge_loo_step"},
    "write": {"write"},
    "search": {
        *FEATURES,
        "sgd_step_size",
        "search_block",
        "search_step",
        "grams_leaf",
        "grams_merge",
        "search_score",
    },
    "pairs": {"pairs"},
}


class Names(SchedulerPlugin):
    """Notes the prefix of every task that is done, except what only ships a function."""

    name = "names"

    def __init__(self):
        self.seen = set()

    def transition(self, key, start, finish, *args, **kwargs):
        if finish == "memory" and not key_split(key).endswith(("_work", "_done")):
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
        "search": lambda: searched(sets, y),
        "pairs": lambda: dk.divergence_matrix(sets[:20], k=2),
        "write": lambda: dk.write_features(folder, features.transform(sets)),
    }


def searched(sets, y):
    model = sgd(n_epochs=1)
    grid = {model.steps[-1][0]: [model[-1], ridge()[-1]]}
    dk.OnePassSearch(model, grid, random_state=0, refit=False).fit(sets, y)


@pytest.mark.parametrize("what", STAGES)
def test_tasks_are_named_by_stages_without_tokens(what, client, sets, tmp_path):
    run = runs(sets, tmp_path / "f.zarr")[what]
    plugin = Names()
    client.cluster.scheduler.add_plugin(plugin)
    run()
    client.cluster.scheduler.remove_plugin(plugin.name)
    assert plugin.seen - DRAWN == STAGES[what]


@pytest.mark.parametrize("what", STAGES)
def test_stages_that_are_seen_together_have_colours_of_their_own(what):
    colours = [color_of(name) for name in STAGES[what]]
    assert len(set(colours)) == len(colours)


def spans_below(client, span_id):
    """(name, span) of what dkdist ran inside a span of the user, in order."""
    (root,) = client.cluster.scheduler.extensions["spans"].spans[span_id].children
    assert root.name[1:] == ("dkdist",)
    return [(child.name[-1], child) for child in root.children]


def test_a_fit_is_one_span_and_each_stage_before_it_another(client, sets):
    model, y = sgd(n_epochs=10), sets.targets["y"]  # 150 batches: many graphs
    with span("my study") as study:
        model.fit(sets, y)
        model.predict(sets)
    names, spans = zip(*spans_below(client, study), strict=True)
    assert names == ("survey", "sampled_rows", "sgd_step_size", "fit IncrementalSGDClassifier", "predict")
    steps = [group for group in spans[3].groups if key_split(group.name) == "sgd_step"]
    assert (
        10 < sum(len(group) for group in steps) <= 150 + 38
    )  # as many batches each as time tells; states, too


def test_every_fit_of_a_client_is_a_span_below_one(client, sets):
    X, y = ridge().fit(sets, sets.targets["y"])[:-1].transform(sets), sets.targets["y"]
    known = client.cluster.scheduler.extensions["spans"].spans_search_by_name
    before = len(known["dkdist", "fit IncrementalRidgeClassifier"])
    for _ in range(2):
        ridge()[-1].fit(X, y)
    assert len(known["dkdist", "fit IncrementalRidgeClassifier"]) == before + 2
    assert len(known[("dkdist",)]) == 1
    assert not known[("default",)]


def test_names_of_stages_fit_into_dasks_progress_bars():
    long = {name for name in itertools.chain(*STAGES.values()) if len(name) > 15}
    assert long <= {"ridge_gram_merge"}


class Told(SchedulerPlugin):
    """Notes all that a graph says in clear: keys and annotations."""

    name = "told"

    def __init__(self):
        self.texts = []

    def update_graph(self, scheduler, *, tasks, annotations, **kwargs):
        self.texts += [str(tasks), str(annotations)]


def test_names_say_nothing_of_where_the_data_is(client, store, sets):
    plugin = Told()
    client.cluster.scheduler.add_plugin(plugin)
    sgd(n_epochs=1).fit(sets, sets.targets["y"])
    client.cluster.scheduler.remove_plugin(plugin.name)
    text = " ".join(plugin.texts) + str(client.get_events("dkdist"))
    assert "fit IncrementalSGDClassifier" in text
    assert "sgd_block" in text
    assert store.name not in text
    assert store.parent.name not in text
