"""``dkdist report``: a report of a model on a store, as one self-contained HTML page."""

from __future__ import annotations

import sys
from argparse import Namespace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import dkdist as dk
from dkdist._utils.files import atomic_file
from dkdist.cli.console import scheduler_session, stopwatch
from dkdist.cli.model import read_target
from dkdist.cli.output import require_output_file
from dkdist.cli.predict import require_learner
from dkdist.cli.report.data_section import data_section, points_section
from dkdist.cli.report.evaluation import Evaluation, evaluate_model
from dkdist.cli.report.model_section import (
    citation_section,
    design_section,
    environment_section,
    model_section,
)
from dkdist.cli.report.page import render_page
from dkdist.cli.report.score_section import score_section


def report(args: Namespace) -> None:
    """Predict every set and write the report."""
    if find_spec("matplotlib") is None:
        raise ImportError("a report needs matplotlib: pip install 'dkdist[plots]'")
    require_output_file("--output", args.output, overwrite=args.overwrite)
    sets, watch = dk.open_sets(args.store), stopwatch()
    target = _choose_target(sets, args.target)
    model = require_learner(dk.load_model(args.model), args.model)
    with scheduler_session(args):
        evaluation = evaluate_model(model, sets, target, read_target(sets, target))
        text = report_page(evaluation, f"{Path(args.model).name}: {target}")
    with atomic_file(args.output, overwrite=args.overwrite) as file:
        file.write(text.encode("utf-8"))
    print(f"wrote {args.output} ({len(text) / 1e6:.1f} MB) in {watch():.1f} s")
    print("open it in any browser; it loads no other resources", file=sys.stderr)


def report_page(evaluation: Evaluation, title: str) -> str:
    """Return the HTML of the report."""
    sections = (
        score_section, data_section, model_section, design_section, points_section, environment_section,
        citation_section,
    )  # fmt: skip
    results = (section(evaluation) for section in sections)
    return render_page(title, [section for section in results if section is not None])


def _choose_target(sets: Any, name: str | None) -> str:
    """Return the name of the target, by default the only one."""
    if name is not None:
        return name
    names = list(sets.targets)
    if len(names) != 1:
        raise ValueError(
            f"the store has the targets {', '.join(names) or '(none)'}. Pass the target of the model as --target"
        )
    return str(names[0])
