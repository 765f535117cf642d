"""The keys of the document that ``--json`` prints, by command: what ``--help`` lists, and what scripts may rely on.

A key is always there; what does not apply is null.

What commands say of themselves in their help.
"""

from __future__ import annotations

import argparse
import textwrap

INFO_TEXT = """\
Say what is in a store of sets or of features, whose points are not read, or in
a model file, of which nothing runs: its steps, parameters, dimensions, classes
and versions.
"""

COMPACT_TEXT = """\
Write a store again with full chunks, and shards where they help, after it grew
by many small appends or was written with small chunks. The sets, weights,
targets and ids stay the same. Without --to the store itself is replaced (on a
local disk only); whoever has it open must then open it again.
"""

EMBED_TEXT = """\
Write each set's row of features to a store that dkdist.open_features reads:
the divergence embedding, and random features of it unless --features 0.
Stopped halfway, the same command goes on where it ended.
"""

PLAN_TEXT = """\
Say what 'dkdist fit' with the same options would read, hold and make, and how
long it takes, without a look at the points. It fails if that does not fit into
memory. What is chosen from the points counts at its largest; without --target,
one number a set is what is learned. Seconds follow from how fast this machine
is with made-up sets of that size, measured once for each kind of fit in some
seconds and kept beside the compiled loops.
"""

FIT_TEXT = """\
Train a model that predicts a target of the store, and save it as one file.
Each set is embedded so that distances are divergences between distributions,
random features make a linear learner act as a kernel machine, and a ridge or
SGD learner is trained block by block; memory does not grow with the store.

Nothing needs to be chosen for that. With --automatic more is tried: several
representations, kernels and penalties are compared by cross-validation, and
beside what is simpler; the best of them is saved.
"""

WARM_TEXT = """\
Compile the loops that fits and predictions run, once for this machine, into a
cache folder that later commands and Python sessions use. Without it the first
of them compiles, some ten seconds.
"""

REPORT_TEXT = """\
Write one HTML page of a saved model on a store: scores with intervals, what
the sets are, the model with its parameters, pictures, which points matter, and
the environment. It holds all it shows, and loads nothing from elsewhere.
"""


HELP_WIDTH = 76  # of the help's lines
COLUMN_KEYS = "each {dtype, columns, distinct, min, max, counts: [{value, count}]}"
SCORE = {
    "task": "classify or regress",
    "n_sets": "sets that were scored",
    "accuracy": "share of the sets whose class is right",
    "largest_class": "accuracy of always naming the most frequent class",
    "r2": "R^2 of numbers",
    "rmse": "root mean squared error",
    "standard_deviation": "rmse of always naming the mean",
}

SETS = {
    "kind": "sets",
    "n_sets": "",
    "n_points": "",
    "n_dims": "",
    "names": "null or those of the dimensions",
    "set_sizes": "{min, median, max}",
    "dtype": "of points",
    "origin": "what points are counted from",
    "weights": "null, or their shape for a point",
    "ids": "null or a column",
    "targets": f"by name, {COLUMN_KEYS}",
}
FEATURES = {"kind": "features", "n_rows": "", "n_features": "", "n_blocks": "", "dtype": ""}
MODEL = {
    "kind": "model",
    "format_version": "of the file",
    "saved_by": "null or versions by library",
    "n_dims": "of points",
    "n_features": "that the last step takes",
    "classes": "null or a list",
    "origin": "what points are counted from",
    "steps": "each {step, estimator, parameters, fitted}",
}
FIT = {
    "task": "classify or regress",
    "target": "",
    "learner": "ridge, sgd or automatic",
    "n_train": "sets trained on",
    "seconds": "",
    "held_out": "null, or what 'dkdist score' says of the rest",
    "model": "the file",
    "saved": "null, or the candidate of --automatic that the file holds",
    "leaderboard": "null, or of --automatic, best first: each {name, score, std_error, seconds, n_features, "
    "kernel, alpha, baseline}",
}
PREDICT = {
    "n_sets": "",
    "output": "the file",
    "columns": "names of what was written",
    "classes": "null or a list",
    "seconds": "",
}
VERIFY = {"good": "true", "n_sets": "", "n_points": "", "n_bytes": "", "n_chunks": "", "seconds": ""}
PLAN = {
    "n_sets": "",
    "n_points": "",
    "n_dims": "",
    "columns": "of the embedding, at most",
    "columns_exact": "whether it is known before the sets are looked at",
    "n_features": "that the learner takes",
    "n_blocks": "",
    "block_bytes": "of the largest block",
    "looks": "passes over the points before the learner's",
    "passes": "of the learner, at most",
    "bytes_a_pass": "read from the store",
    "base_bytes": "of memory that a process holds before the work",
    "peak_bytes": "of memory that a process holds at its peak, base included",
    "limit_bytes": "of memory that a process may use",
    "fits": "whether the peak is below the limit",
}
WARM = {
    "folder": "where compiled loops are kept",
    "lasts": "false if it goes with this process",
    "n_compiled": "loops that were not there",
    "seconds": "",
}


def add_json(command: argparse.ArgumentParser, *documents: dict[str, str]) -> None:
    """The option ``--json`` of a command that prints one of these documents."""
    keys = "\n or\n".join(map(_format_keys, documents))
    group = command.add_argument_group(
        "for scripts", f"the document of --json; what does not apply is null:\n{keys}"
    )
    group.add_argument(
        "--json", action="store_true", help="print one JSON document, and all else on standard error"
    )


def _format_keys(document: dict[str, str]) -> str:
    lines = (f"  {key:<18} {meaning}".rstrip() for key, meaning in document.items())
    return "\n".join(textwrap.fill(line, HELP_WIDTH, subsequent_indent=" " * 21) for line in lines)
