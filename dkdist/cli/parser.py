"""Parser of the commands and their options; it imports no large library, so that ``--help`` is fast."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

import dkdist
from dkdist.cli.completion import SHELLS, PrintCompletion
from dkdist.cli.help import (
    COMPACT_TEXT,
    EMBED_TEXT,
    FEATURES,
    FIT,
    FIT_TEXT,
    INFO_TEXT,
    MODEL,
    PLAN,
    PLAN_TEXT,
    PREDICT,
    REPORT_TEXT,
    SCORE,
    SETS,
    VERIFY,
    WARM,
    WARM_TEXT,
    add_json,
)
from dkdist.cli.options import (
    MAX_CHUNK_ROWS,
    add_automatic_options,
    add_cluster_options,
    add_feature_options,
    add_learning_options,
    add_overwrite_option,
    add_running_options,
    chunk_rows,
    nonempty_text,
    whole_number,
)

DESCRIPTION = """\
Learn from collections of sample sets: every example is a set of points (a bag
of features, the ink of an image, a time series), and models predict from its
distribution.

To start, run 'dkdist demo': it trains two classifiers in a few seconds and
prints next steps.
"""

IMPORT_TEXT = """\
Convert files to a store, the input of all other commands. SOURCE may be

  .csv .tsv .parquet  one point per row, with a column for its set (--set-id).
                      Rows may have any order, and tables any size: they are
                      read in pieces, ids and targets first.
  .npz                'values' (all points, set after set) and 'offsets' (set i
                      is values[offsets[i]:offsets[i + 1]]), or one array (sets,
                      points, dimensions); arrays with one entry per set become
                      targets, and 'ids' names the sets.
  .npy                one array (sets, points, dimensions).
  .fcs .lmd           a data set of a cytometer is a set; its channels are the
                      coordinates (all but Time, or --points).
  .las .laz           a LiDAR file is a set of points x, y, z (or --points).

A directory of tables is one table: its files, at any depth, may share sets,
and names of directories such as 'region=eu' are columns. Several files or a
pattern ('cells/*.npz') become one store, in the order of the arguments or by
name. They must be of one kind, and a set must lie within one file.
"""


class CommandParser(argparse.ArgumentParser):
    """Parser whose errors are one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        """Print the message and a reference to the help, and exit with status 2."""
        self.exit(2, f"{self.prog}: error: {message}. See '{self.prog} --help'\n")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of ``dkdist``; ``args.run`` names the function that runs the command."""
    parser = CommandParser(
        "dkdist", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    version = f"dkdist {dkdist.__version__}"
    parser.add_argument("--version", action="version", version=version, help="show the version and exit")
    parser.add_argument(
        "--print-completion", action=PrintCompletion, choices=SHELLS, help="print a completion script and exit"
    )  # fmt: skip
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add_command in (
        _add_demo, _add_import, _add_info, _add_verify, _add_compact, _add_embed, _add_plan, _add_fit, _add_predict,
        _add_score, _add_report, _add_warm,
    ):  # fmt: skip
        add_command(commands)
    for command in commands.choices.values():
        _reject_empty_text(command)
    return parser


def _reject_empty_text(command: argparse.ArgumentParser) -> None:
    """Make empty text an error in every argument of a command without another parser."""
    for action in command._actions:
        if action.type is None and action.nargs != 0 and action.choices is None:
            action.type = nonempty_text


def option_names(command: str) -> dict[str, str]:
    """Return the arguments of a command as users type them, by attribute: ``{"alphas": "--alpha"}``."""
    (commands,) = (a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    return {
        action.dest: action.option_strings[0] if action.option_strings else str(action.metavar)
        for action in commands.choices[command]._actions
    }


def _add_command(
    commands: Any,
    name: str,
    run: str,
    summary: str,
    example: str,
    text: str = "",
    *,
    store: str | None = "store of sets",
) -> argparse.ArgumentParser:
    """Add a command; ``store`` is the help of its first argument, if that is a store."""
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=text or summary[0].upper() + summary[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(run=f"dkdist.cli.{run}", command=name)
    command.add_argument("--debug", action="store_true", help="print the traceback of an error")
    if store is not None:
        command.add_argument("store", metavar="STORE", help=store)
    return command


def _add_demo(commands: Any) -> None:
    command = _add_command(
        commands, "demo", "demo:run", "train two classifiers of handwritten digits",
        "dkdist demo --output digits", store=None,
    )  # fmt: skip
    command.add_argument(
        "--output", default="demo-output", metavar="DIR", help="folder of its files (default: demo-output)"
    )


def _add_import(commands: Any) -> None:
    command = _add_command(
        commands, "import", "importing:run", "convert tables or arrays to a store of sample sets",
        "dkdist import cells.csv cells.zarr --set-id patient --points cd4,cd8 --target diagnosis",
        IMPORT_TEXT, store=None,
    )  # fmt: skip
    command.add_argument("source", nargs="+", metavar="SOURCE", help="files, directories or patterns to read")
    command.add_argument("store", metavar="STORE", help="store to write: a directory or URL")
    existing = command.add_mutually_exclusive_group()
    existing.add_argument("--overwrite", action="store_true", help="replace an existing store")
    existing.add_argument("--append", action="store_true", help="append the sets to an existing store")
    command.add_argument("--weight", metavar="NAME", help="column or array with a weight per point")
    command.add_argument(
        "--target", "--targets", nargs="+", metavar="NAME", dest="targets",
        help="columns that are constant within a set, or arrays with one entry per set; commas also separate names "
        "(default for arrays: all)",
    )  # fmt: skip
    command.add_argument(
        "--points", metavar="COL,COL",
        help="coordinates of a point: columns, channels or dimensions (default: all other columns of numbers, "
        "all channels, or x,y,z)",
    )  # fmt: skip
    command.add_argument(
        "--origin", metavar="X,Y,...",
        help="offset per dimension, subtracted from values far from zero (default: derived from all sources)",
    )  # fmt: skip
    table = command.add_argument_group("tables")
    table.add_argument("--set-id", metavar="COLUMN", help="column with the set of each point (h5ad: of obs)")
    table.add_argument(
        "--missing-targets", choices=("raise", "drop"),
        help="raise an error for sets without a target, or drop them (default: raise)",
    )  # fmt: skip
    table.add_argument(
        "--missing-points", choices=("raise", "drop"),
        help="raise an error for rows without an id, a coordinate or a weight, or drop them (default: raise)",
    )  # fmt: skip
    table.add_argument(
        "--delimiter",
        metavar="CHAR",
        help="column separator of CSV files (default: a comma; .tsv: a tab)",
    )
    table.add_argument("--decimal", choices=(".", ","), help="decimal mark of CSV files (default: .)")
    table.add_argument(
        "--encoding", metavar="NAME", help="encoding of CSV files, such as latin-1 (default: utf-8)"
    )
    table.add_argument("--sort", action="store_true", help="order the sets by their ids")
    table.add_argument(
        "--text", nargs="+", default=[], metavar="COLUMN",
        help="columns of a CSV file to read as text, even if they look like numbers",
    )  # fmt: skip
    annotated = command.add_argument_group("h5ad files")
    annotated.add_argument(
        "--obsm", metavar="NAME", help="matrix of obsm to read, such as X_pca (default: X)"
    )
    annotated.add_argument("--layer", metavar="NAME", help="layer to read (default: X)")
    arrays = command.add_argument_group("arrays")
    arrays.add_argument("--values", metavar="NAME", help="array of the points (default: values)")
    arrays.add_argument("--offsets", metavar="NAME", help="array of the offsets of sets (default: offsets)")
    instruments = command.add_argument_group("instrument files")
    instruments.add_argument(
        "--data-set", type=int, metavar="N", help="read only data set N of each FCS file, counted from 1"
    )
    instruments.add_argument(
        "--compensate", action="store_true",
        help="remove spillover from FCS files, by the matrix of each file",
    )  # fmt: skip
    instruments.add_argument(
        "--transform", choices=("arcsinh", "logicle"),
        help="scale of FCS channels except scatter and time (default: linear)",
    )  # fmt: skip
    instruments.add_argument(
        "--cofactor", type=float, metavar="X",
        help="divisor of the arcsinh scale: 150 for fluorescence, 5 for mass cytometry (default: 150)",
    )  # fmt: skip
    instruments.add_argument(
        "--id-parts", type=int, metavar="N",
        help="use the last N parts of a path as the id: 2 for plate1/A01 (default: 1)",
    )  # fmt: skip
    add_running_options(command)


def _add_info(commands: Any) -> None:
    command = _add_command(
        commands, "info", "stores:info", "describe a store or a model file", "dkdist info cells.zarr", INFO_TEXT,
        store="store of sets or of features, or model file",
    )  # fmt: skip
    add_json(command, SETS, FEATURES, MODEL)


def _add_verify(commands: Any) -> None:
    command = _add_command(
        commands, "verify", "stores:verify", "read a whole store and check it",
        "dkdist verify cells.zarr",
    )  # fmt: skip
    add_running_options(command)
    add_json(command, VERIFY)


def _add_compact(commands: Any) -> None:
    command = _add_command(
        commands, "compact", "stores:compact", "rewrite a store with full chunks", "dkdist compact cells.zarr",
        COMPACT_TEXT,
    )  # fmt: skip
    command.add_argument("--to", metavar="OTHER", help="write another store instead of replacing this one")
    command.add_argument("--overwrite", action="store_true", help="replace OTHER if it exists")
    chunk = "points per chunk, a power of two (default: about 1 MiB)"
    command.add_argument("--chunk-rows", type=chunk_rows, metavar="N", help=chunk)
    shard = "points per shard, a multiple of the chunk (default: chosen by the size of the store)"
    command.add_argument("--shards", type=whole_number(1, MAX_CHUNK_ROWS - 1), metavar="N", help=shard)
    add_running_options(command)


def _add_embed(commands: Any) -> None:
    command = _add_command(
        commands, "embed", "fit:embed", "write the features of every set to a store",
        "dkdist embed cells.zarr features.zarr --divergence jensen-shannon --features 5000", EMBED_TEXT,
    )  # fmt: skip
    command.add_argument("output", metavar="OUTPUT", help="store of features to write")
    add_overwrite_option(command, "store of features")
    add_feature_options(command)
    add_running_options(command)


def _add_plan(commands: Any) -> None:
    command = _add_command(
        commands, "plan", "plan:plan", "estimate the I/O, memory and features of a fit",
        "dkdist plan cells.zarr --target diagnosis --features 20000", PLAN_TEXT,
    )  # fmt: skip
    command.add_argument("--target", metavar="NAME", help="target to predict")
    add_feature_options(command)
    add_learning_options(command)
    add_cluster_options(command.add_argument_group("running"))
    add_json(command, PLAN)
    command.set_defaults(checkpoint=None, performance_report=None)


def _add_fit(commands: Any) -> None:
    command = _add_command(
        commands, "fit", "fit:fit", "train a model on a store and save it",
        "dkdist fit cells.zarr --target diagnosis --model diagnosis.npz --train-fraction 0.8", FIT_TEXT,
    )  # fmt: skip
    command.add_argument(
        "--target", required=True, metavar="NAME", help="target to predict ('dkdist info' lists them)"
    )
    command.add_argument(
        "--model", required=True, metavar="FILE", help="model file to write, such as model.npz"
    )
    add_overwrite_option(command, "model")
    add_automatic_options(command)
    add_feature_options(command)
    add_learning_options(command)
    checkpoint = (
        "for sgd: save the run in this folder, so that the same command resumes after an interruption"
    )
    command.add_argument("--checkpoint", metavar="DIR", help=checkpoint)
    add_running_options(command)
    add_json(command, FIT)


def _add_predict(commands: Any) -> None:
    command = _add_command(
        commands, "predict", "predict:predict", "predict the target of every set with a saved model",
        "dkdist predict new.zarr --model diagnosis.npz --output diagnosis.csv --probabilities",
    )  # fmt: skip
    command.add_argument(
        "--model", required=True, metavar="FILE", help="model file of 'dkdist fit' or save_model"
    )
    command.add_argument(
        "--output", required=True, metavar="FILE",
        help=".csv or .parquet (columns set, prediction), .npz (arrays ids and prediction), .npy (predictions alone), "
        "or - for CSV on standard output; sets without ids have their index as id",
    )  # fmt: skip
    command.add_argument(
        "--probabilities", action="store_true",
        help="also write the probability of every class (columns probability_CLASS; in .npz arrays probabilities and "
        "classes); reads the sets twice",
    )  # fmt: skip
    add_overwrite_option(command, "file")
    add_running_options(command)
    add_json(command, PREDICT)


def _add_score(commands: Any) -> None:
    command = _add_command(
        commands, "score", "predict:score", "compare a saved model's predictions with a target",
        "dkdist score test.zarr --model diagnosis.npz --target diagnosis",
    )  # fmt: skip
    command.add_argument(
        "--model", required=True, metavar="FILE", help="model file of 'dkdist fit' or save_model"
    )
    command.add_argument("--target", required=True, metavar="NAME", help="target with the true values")
    add_running_options(command)
    add_json(command, SCORE)


def _add_warm(commands: Any) -> None:
    command = _add_command(
        commands, "warm", "warm:warm", "compile functions before they are needed", "dkdist warm --all",
        WARM_TEXT, store=None,
    )  # fmt: skip
    command.add_argument(
        "--all",
        action="store_true",
        help="compile the functions of all public names, except a few for very large inputs; takes some minutes",
    )
    add_json(command, WARM)


def _add_report(commands: Any) -> None:
    command = _add_command(
        commands, "report", "report.run_report:report", "write an HTML report of a saved model on a store",
        "dkdist report diagnosis.npz test.zarr --target diagnosis --output report.html", REPORT_TEXT, store=None,
    )  # fmt: skip
    command.add_argument("model", metavar="MODEL", help="model file of 'dkdist fit' or save_model")
    command.add_argument(
        "store", metavar="STORE", help="store of sets, preferably sets that were not used in training"
    )
    command.add_argument("--output", required=True, metavar="FILE", help="page to write, such as report.html")
    command.add_argument(
        "--target", metavar="NAME", help="target with the true values (default: the only target)"
    )
    command.add_argument("--overwrite", action="store_true", help="replace an existing page")
    add_running_options(command)
