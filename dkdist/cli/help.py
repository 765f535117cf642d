"""Long help texts of the commands, and the keys of the documents that ``--json`` prints.

``--help`` lists the keys, and scripts may rely on them: a key is always present, and null if it does not apply.
"""

from __future__ import annotations

import argparse
import textwrap

from dkdist.cli._tuning import HELP_WIDTH

INFO_TEXT = """\
Describe a store of sets or of features without reading its points, or a model
file without running any of its code: steps, parameters, dimensions, classes
and versions.
"""

COMPACT_TEXT = """\
Rewrite a store with full chunks, and with shards where they help, after many
small appends or if it was written with small chunks. Sets, weights, targets
and ids stay the same. Without --to the store itself is replaced (on a local
disk only); programs that have it open must open it again.
"""

EMBED_TEXT = """\
Write the features of every set to a store, which dkdist.open_features reads:
the divergence embedding and, unless --features 0, random features of it.
If interrupted, run the same command again to resume.
"""

PLAN_TEXT = """\
Estimate what 'dkdist fit' with the same options would read, hold in memory and
compute, without reading points. The exit code is 2 if the fit does not fit
into memory. The plan assumes the largest values of parameters that a fit
selects from the points. Without --target, it is for one number per set.
"""

FIT_TEXT = """\
Train a model that predicts a target of the store, and save it as one file.
Each set is embedded so that distances are divergences between distributions,
random features make a linear learner act as a kernel machine, and a ridge or
SGD learner is trained block by block; memory does not grow with the store.

All options have defaults. With --automatic, several representations, kernels
and penalties are compared by cross-validation, next to simple baselines, and
the best candidate is saved.
"""

WARM_TEXT = """\
Compile the functions that fits and predictions run, once per machine, into a
cache folder that later commands and Python sessions use. Otherwise the first
command or session compiles them, which takes 10 to 20 s.
"""

REPORT_TEXT = """\
Write a report of a saved model on a store as one HTML page: scores with
intervals, the data, the model with its parameters, figures, contributions of
points and dimensions, and the environment. The page is self-contained.
"""

COLUMN_KEYS = "each {dtype, columns, distinct, min, max, counts: [{value, count}]}"
SCORE = {
    "task": "classify or regress",
    "n_sets": "number of scored sets",
    "accuracy": "fraction of sets with the correct class",
    "largest_class": "accuracy of always predicting the most frequent class",
    "r2": "R^2 of numbers",
    "rmse": "root mean squared error",
    "standard_deviation": "rmse of always predicting the mean",
}

SETS = {
    "kind": "sets",
    "n_sets": "",
    "n_points": "",
    "n_dims": "",
    "names": "null, or names of the dimensions",
    "set_sizes": "{min, median, max}",
    "dtype": "of points",
    "origin": "offset per dimension, subtracted before points are stored",
    "weights": "null, or their shape per point",
    "ids": "null, or a column",
    "targets": f"by name, {COLUMN_KEYS}",
}
FEATURES = {"kind": "features", "n_rows": "", "n_features": "", "n_blocks": "", "dtype": ""}
MODEL = {
    "kind": "model",
    "format_version": "of the file",
    "saved_by": "null, or versions by library",
    "n_dims": "of points",
    "n_features": "of the input of the last step",
    "classes": "null, or a list",
    "origin": "offset per dimension, subtracted before points are stored",
    "steps": "each {step, estimator, parameters, fitted}",
}
FIT = {
    "task": "classify or regress",
    "target": "",
    "learner": "ridge, sgd or automatic",
    "n_train": "number of training sets",
    "seconds": "",
    "held_out": "null, or the document of 'dkdist score' for the held-out sets",
    "model": "the file",
    "saved": "null, or name of the candidate of --automatic in the file",
    "leaderboard": "null, or for --automatic, best first: each {name, score, std_error, seconds, n_features, "
    "kernel, alpha, baseline}",
}
PREDICT = {
    "n_sets": "",
    "output": "the file",
    "columns": "names of the written columns",
    "classes": "null, or a list",
    "seconds": "",
}
VERIFY = {"good": "true", "n_sets": "", "n_points": "", "n_bytes": "", "n_chunks": "", "seconds": ""}
PLAN = {
    "n_sets": "",
    "n_points": "",
    "n_dims": "",
    "columns": "of the embedding, at most",
    "columns_exact": "true if columns does not depend on the points",
    "n_features": "of the input of the learner",
    "n_blocks": "",
    "block_bytes": "of the largest block",
    "looks": "passes over the points before those of the learner",
    "passes": "of the learner, at most",
    "bytes_a_pass": "read from the store per pass",
    "base_bytes": "memory of a process before the work",
    "peak_bytes": "peak memory of a process, base included",
    "limit_bytes": "memory limit of a process",
    "fits": "true if the peak is at most the limit",
}
WARM = {
    "folder": "cache folder of compiled functions",
    "lasts": "false if the folder is removed with this process",
    "n_compiled": "number of functions that were not cached",
    "seconds": "",
}


def add_json(command: argparse.ArgumentParser, *documents: dict[str, str]) -> None:
    """Add the option ``--json``, and list the keys of its documents in the help."""
    keys = "\n or\n".join(map(_format_keys, documents))
    group = command.add_argument_group(
        "for scripts", f"keys of the --json document (null if not applicable):\n{keys}"
    )
    group.add_argument(
        "--json", action="store_true", help="print one JSON document; messages go to standard error"
    )


def _format_keys(document: dict[str, str]) -> str:
    lines = (f"  {key:<18} {meaning}".rstrip() for key, meaning in document.items())
    return "\n".join(textwrap.fill(line, HELP_WIDTH, subsequent_indent=" " * 21) for line in lines)
