"""`dkdist report`: the page states correct numbers, loads no resources, and escapes names."""

from __future__ import annotations

import base64
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, log_loss, mean_absolute_error, r2_score
from sklearn.pipeline import make_pipeline

import dkdist as dk
from dkdist._base.inputs import check_sets
from dkdist._base.set_digests import data_fingerprint
from dkdist.cli import main
from dkdist.cli.report import run_report
from dkdist.cli.report.data_section import data_section, points_section
from dkdist.cli.report.evaluation import Evaluation, evaluate_model
from dkdist.cli.report.model_section import design_section, model_section
from dkdist.cli.report.score_section import (
    bootstrap_score,
    classification_scores,
    proportion_score,
    regression_scores,
    score_section,
)

RNG = np.random.default_rng(0)
N = 60
HOSTILE = "<img src=x onerror=alert(1)>"
Y = np.arange(N) % 2
SPREAD = RNG.uniform(0.5, 2, N)
SETS = [RNG.normal(c, s, (12, 2)) for c, s in zip(Y, SPREAD, strict=True)]
SECTIONS = ["Scores", "Data", "Model", "Contributions", "Environment", "How to cite"]
VOID = {"meta", "img", "br"}


class Page(HTMLParser):
    """Parser of a page that requires balanced elements and collects attributes and texts."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.attributes, self.texts, self.tags = [], [], {}, []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and data.strip():
            self.texts.setdefault(self.open[-1], []).append(data.strip())

    def values(self, tag, name):
        return [value for own, key, value in self.attributes if (own, key) == (tag, name)]

    def __contains__(self, text):
        return any(text in own for some in self.texts.values() for own in some)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    targets = {"kind": np.where(Y == 1, HOSTILE, "plain"), "spread": SPREAD}
    store = dk.write_sets(folder / "<bags>.zarr", SETS, targets=targets)
    for name, learner, target in (
        ("kind", dk.IncrementalRidgeClassifier(random_state=0), targets["kind"]),
        ("spread", dk.IncrementalRidge(random_state=0), SPREAD),
    ):
        model = make_pipeline(dk.MomentEmbedding(), learner).fit(store[:40], target[:40])
        dk.save_model(model, folder / f"{name}.npz")
    return folder


def write_report(folder, target, *more):
    output = folder / f"{target}.html"
    command = ["report", str(folder / f"{target}.npz"), str(folder / "<bags>.zarr"), "--output", str(output)]
    assert main([*command, "--target", target, *more]) == 0
    return Page(output.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def classification_page(folder):
    return write_report(folder, "kind")


def test_every_section_exists_and_is_linked(classification_page):
    assert classification_page.texts["h2"] == SECTIONS
    assert classification_page.values("a", "href") == [
        f"#{i}" for i in classification_page.values("section", "id")
    ]
    assert classification_page.texts["h1"] == ["kind.npz: kind"]


def test_hostile_names_are_escaped(classification_page):
    assert HOSTILE in classification_page
    assert not {"script", "iframe", "link", "object"} & set(classification_page.tags)
    assert not [name for _, name, _ in classification_page.attributes if name.startswith("on")]
    assert any("<bags>.zarr" in text for text in classification_page.texts["td"])


def test_the_page_loads_no_resources(classification_page):
    sources = classification_page.values("img", "src")
    assert len(sources) == 5  # confusions, calibration, sets, map, points
    for source in sources:
        data = base64.b64decode(source.removeprefix("data:image/svg+xml;base64,"), validate=True)
        assert ElementTree.fromstring(data).tag.endswith("svg")
    assert classification_page.values("meta", "content")[0].startswith("default-src 'none'")
    assert all(len(text) > 20 for text in classification_page.values("img", "alt"))


def test_the_scores_are_those_of_the_model(folder, classification_page):
    model, sets = dk.load_model(folder / "kind.npz"), dk.open_sets(folder / "<bags>.zarr")
    right = (model.predict(sets) == sets.targets["kind"]).mean()
    assert f"{100 * right:.1f} % of 60 sets" in classification_page
    assert f"{right:.4g}" in classification_page.texts["td"]
    assert "0.5" in classification_page.texts["td"]  # the largest class
    assert "MomentEmbedding" in str(classification_page.texts["strong"])
    assert f"{model[-1].alpha_:.6g}" in classification_page.texts["td"]


def test_a_regression_report_shows_r2(folder):
    model, sets = dk.load_model(folder / "spread.npz"), dk.open_sets(folder / "<bags>.zarr")
    page = Page("".join(score_section(evaluate_model(model, sets, "spread", SPREAD)).parts))
    assert f"R2 {r2_score(SPREAD, model.predict(sets)):.3f} over 60 sets" in page
    assert page.tags.count("img") == 1


def test_a_page_is_replaced_only_with_overwrite(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(run_report, "report_page", lambda evaluation, title: title)
    output = tmp_path / "r.html"
    output.write_text("mine")
    command = ["report", str(folder / "spread.npz"), str(folder / "<bags>.zarr"), "--output", str(output)]
    assert main([*command, "--target", "spread"]) == 2
    assert "already exists. Pass --overwrite" in capsys.readouterr().err
    assert output.read_text() == "mine"
    assert main([*command, "--target", "spread", "--overwrite"]) == 0
    assert output.read_text() == "spread.npz: spread"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (None, "the store has the targets kind, spread. Pass the target of the model"),
        ("other", "the store has no target 'other'"),
        ("spread", "target 'spread' contains"),
    ],
)
def test_a_missing_or_unsuitable_target_is_refused_before_any_work(target, message, folder, tmp_path, capsys):
    command = [
        "report",
        str(folder / "kind.npz"),
        str(folder / "<bags>.zarr"),
        "--output",
        str(tmp_path / "r.html"),
    ]
    assert main([*command, *([] if target is None else ["--target", target])]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_points_with_the_largest_contributions_are_listed(folder, classification_page):
    model, sets = dk.load_model(folder / "kind.npz"), dk.open_sets(folder / "<bags>.zarr")
    for i in (0, 1):  # the first set of each class
        values = dk.explain(model, sets[[i]])[0]
        largest = int(np.argmax(np.abs(values)))
        numbers = [f"{values[largest]:.4g}", *(f"{value:.4g}" for value in sets[i][largest])]
        assert all(number in classification_page.texts["td"] for number in numbers)


def test_the_fingerprint_depends_on_points_and_not_on_their_order(folder, classification_page):
    shuffled = [RNG.permutation(one) for one in SETS]
    assert data_fingerprint(check_sets(shuffled)) in classification_page
    assert data_fingerprint(check_sets(SETS[::-1])) not in classification_page
    assert data_fingerprint(check_sets([SETS[0] + 1, *SETS[1:]])) not in classification_page


def test_an_automatic_model_shows_its_leaderboard(folder):
    sets = dk.open_sets(folder / "<bags>.zarr")
    model = dk.SetClassifier(["moments"], random_state=0).fit(sets[:40], Y[:40])
    evaluation = evaluate_model(model, sets, "y", Y)
    n_far = (model.domain_shift(sets)["p_value"] <= 0.05).sum()
    data = Page("".join(data_section(evaluation).parts))
    assert f"{n_far} of 60 (about 3 if equally distributed)" in data.texts["td"]
    page = Page("".join(model_section(evaluation).parts))
    assert "Leaderboard" in page.texts["strong"]
    assert {entry["name"] for entry in model.leaderboard_} <= set(page.texts["td"])
    assert any(text.startswith("Best baseline: ") for text in page.texts["p"])


def test_a_model_with_covariates_shows_its_design_and_contributions(folder):
    sets = dk.open_sets(folder / "<bags>.zarr")
    model = dk.SetClassifier(["moments"], covariates=["spread"], random_state=0).fit(sets, Y)
    evaluation = evaluate_model(model, sets, "y", Y)
    page = Page("".join(model_section(evaluation).parts))
    assert any(text.startswith("Covariate 'spread' (number)") for text in page.texts["p"])
    points = Page("".join(points_section(evaluation).parts))
    assert "Largest contributions" in str(points.texts)


def test_the_design_of_a_study_is_a_section(folder, tmp_path):
    sets = dk.open_sets(folder / "<bags>.zarr")
    batch = np.array(["March", HOSTILE])[np.arange(N) // 2 % 2]
    study = dk.write_sets(tmp_path / "s", SETS, targets={"y": Y, "spread": SPREAD, "batch": batch})
    model = dk.SetClassifier(["moments"], covariates=["spread"], adjust=["batch"], cv=3, random_state=0)
    evaluation = evaluate_model(model.fit(study, Y), study, "y", Y)
    section = design_section(evaluation)
    assert section.title == "Design"
    cells = Page("".join(section.parts)).texts["td"]
    explained = np.corrcoef(SPREAD, Y)[0, 1] ** 2
    assert cells[:4] == ["spread", "covariate", "number", f"{explained:.2f}"]
    row = cells[cells.index("batch") :]
    assert row[1:3] == ["adjusted", "2 categories"]
    assert row[4:7] == [
        f"{model.nuisance_scores_['batch'][k]:.2f}" for k in ("adjusted", "unadjusted", "chance")
    ]
    assert "Design" in run_report.report_page(evaluation, "title")
    plain = evaluate_model(
        make_pipeline(dk.MomentEmbedding(), LogisticRegression()).fit(sets, Y), sets, "y", Y
    )
    assert design_section(plain) is None


def test_a_model_without_contributions_is_reported(folder):
    sets = dk.open_sets(folder / "<bags>.zarr")
    model = make_pipeline(dk.MomentEmbedding(), LogisticRegression()).fit(sets.load(), Y)
    section = points_section(Evaluation(model, sets, "y", Y, Y, None))
    (text,) = section.parts
    assert "Contributions are not available for this model" in text
    assert "LogisticRegression" in text


def test_strings_are_drawn(tmp_path):
    strings = dk.SampleSets.from_strings(["GATTACA" * (1 + k % 2) + "CAT"[: k % 3] for k in range(24)])
    y = np.arange(24) % 2 + 0.5
    sets = dk.write_sets(tmp_path / "s", strings)
    model = make_pipeline(
        dk.DistanceEmbedding("levenshtein", n_components=8, random_state=0), dk.IncrementalRidge()
    )
    page = Page("".join(data_section(Evaluation(model.fit(strings, y), sets, "y", y, y, None)).parts))
    assert page.tags.count("img") == 2


def test_intervals_of_proportions_are_wilson_intervals():
    right = np.arange(50) < 40
    result, z = proportion_score("s", right), norm.ppf(0.975)
    middle, half = (40 + z**2 / 2) / (50 + z**2), z / (50 + z**2) * np.sqrt(40 * 10 / 50 + z**2 / 4)
    np.testing.assert_allclose([result.low, result.value, result.high], [middle - half, 0.8, middle + half])


def test_scores_equal_scikit_learn():
    truth = np.array(["a", "b", "c"])[RNG.integers(0, 3, 200)]
    P = RNG.dirichlet(np.ones(3), 200)
    predicted = np.array(["a", "b", "c"])[P.argmax(axis=1)]
    accuracy, balanced, loss, *_ = classification_scores(truth, predicted, np.array(["a", "b", "c"]), P)
    assert accuracy.value == (truth == predicted).mean()
    assert balanced.value == pytest.approx(balanced_accuracy_score(truth, predicted))
    assert loss.value == pytest.approx(log_loss(truth, P))
    assert all(score.low <= score.value <= score.high for score in (accuracy, balanced, loss))
    x = RNG.normal(size=200)
    y = x + RNG.normal(size=200)
    r2, rms, mean = regression_scores(x, y)
    assert r2.value == pytest.approx(r2_score(x, y))
    assert mean.value == pytest.approx(mean_absolute_error(x, y))
    half = norm.ppf(0.975) * np.abs(x - y).std() / np.sqrt(200)  # the central limit theorem
    assert mean.high - mean.low == pytest.approx(2 * half, rel=0.2)
    assert (rms.constant, r2.constant) == (pytest.approx(x.std()), 0)


def test_bootstrap_intervals_cover_the_true_value():
    """60 samples of a known distribution: about 95 % of the intervals contain its mean absolute error."""
    held = 0
    for _ in range(60):
        errors = np.abs(RNG.normal(size=80))
        mean = bootstrap_score("mean", lambda rows, errors=errors: float(errors[rows].mean()), 80)
        held += mean.low <= np.sqrt(2 / np.pi) <= mean.high
    assert held >= 50  # 57 are expected


def test_the_constant_baseline_of_a_single_class_has_accuracy_one():
    scores = classification_scores(np.zeros(5, int), np.zeros(5, int), np.array([0, 1]), None)
    assert [score.name for score in scores] == ["accuracy", "recall of 0"]
    assert re.fullmatch(r"1(\.0)?", str(scores[0].constant))
