"""The commands and their options; nothing heavy is imported here, so that help is there at once."""

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
Learn from collections of sample sets: every data point is a set of points (a
bag of features, an image's ink, a time series), and what is learned is a
function of the distribution it was drawn from.

New here? 'dkdist demo' trains two classifiers in a few seconds and says what
to try next.
"""

IMPORT_TEXT = """\
Turn files into a store that all other commands read. SOURCE may be

  .csv .tsv .parquet  one point a row, with a column that says which set it
                      belongs to (--set-id). Rows may stand in any order, and
                      the table may be of any size: it is read in pieces,
                      ids and targets first.
  .npz                'values' (all points, set after set) and 'offsets' (set i
                      is values[offsets[i]:offsets[i + 1]]), or one array (sets,
                      points, dimensions); arrays with one entry a set become
                      targets, and 'ids' names the sets.
  .npy                one array (sets, points, dimensions).
  .fcs .lmd           a data set of a cytometer is a set; its channels are the
                      coordinates (all but Time, or --points).
  .las .laz           a LiDAR file is a set of points x, y, z (or --points).

A directory of tables is one table: its files, at any depth, may share sets,
and names of directories such as 'region=eu' are columns. Several files or a
pattern ('cells/*.npz') become one store, in the order given or by name: all of
them are of one kind, a set lies within one file, and they are read in parallel.
"""


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors are one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        """Print the message with a hint at the help, and exit with status 2."""
        self.exit(2, f"{self.prog}: error: {message}. See '{self.prog} --help'\n")


def build_parser() -> argparse.ArgumentParser:
    """The parser of ``dkdist``; ``args.run`` names the function that runs the command."""
    parser = CommandParser(
        "dkdist", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    shown = f"dkdist {dkdist.__version__}"
    parser.add_argument("--version", action="version", version=shown, help="show the version and exit")
    parser.add_argument(
        "--print-completion", action=PrintCompletion, choices=SHELLS, help="print a completion script for this shell"
    )  # fmt: skip
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in (
        _demo,
        _import,
        _info,
        _verify,
        _compact,
        _embed,
        _plan,
        _fit,
        _predict,
        _score,
        _report,
        _warm,
    ):
        add(commands)
    for command in commands.choices.values():
        _reject_empty_text(command)
    return parser


def _reject_empty_text(command: argparse.ArgumentParser) -> None:
    """Refuse empty text in every argument of a command that has no reader of its own."""
    for action in command._actions:
        if action.type is None and action.nargs != 0 and action.choices is None:
            action.type = nonempty_text


def option_names(command: str) -> dict[str, str]:
    """The names of a command's arguments as users type them, by attribute: ``{"alphas": "--alpha"}``."""
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
    store: str | None = "a store of sets",
) -> argparse.ArgumentParser:
    """A command; ``store`` is what its first argument is, if it is a store."""
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=text or summary[0].upper() + summary[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(run=f"dkdist.cli.{run}", command=name)
    command.add_argument("--debug", action="store_true", help="on an error, show where it came from")
    if store is not None:
        command.add_argument("store", metavar="STORE", help=store)
    return command


def _demo(commands: Any) -> None:
    command = _add_command(
        commands, "demo", "demo:run", "train two classifiers of handwritten digits, from ink to accuracy",
        "dkdist demo --output digits", store=None,
    )  # fmt: skip
    command.add_argument(
        "--output", default="demo-output", metavar="DIR", help="where its files go (default: demo-output)"
    )


def _import(commands: Any) -> None:
    command = _add_command(
        commands, "import", "importing:run", "turn tables or arrays into a store of sample sets",
        "dkdist import cells.csv cells.zarr --set-id patient --points cd4,cd8 --target diagnosis", IMPORT_TEXT, store=None,
    )  # fmt: skip
    command.add_argument(
        "source", nargs="+", metavar="SOURCE", help="files to read, directories of them, or patterns"
    )
    command.add_argument("store", metavar="STORE", help="the store to write: a directory or URL")
    existing = command.add_mutually_exclusive_group()
    existing.add_argument("--overwrite", action="store_true", help="replace a store that is there")
    existing.add_argument("--append", action="store_true", help="add the sets to a store that is there")
    command.add_argument("--weight", metavar="NAME", help="column or array with a weight for every point")
    command.add_argument(
        "--target", "--targets", nargs="+", metavar="NAME", dest="targets",
        help="columns that are constant within a set, or arrays with one entry a set, also separated by commas "
        "(default for arrays: all)",
    )  # fmt: skip
    command.add_argument(
        "--points", metavar="COL,COL",
        help="the coordinates of a point: columns, channels or dimensions (default: all other columns of numbers, "
        "all channels, or x,y,z)",
    )  # fmt: skip
    command.add_argument(
        "--origin", metavar="X,Y,...",
        help="coordinates to count from, one a dimension, for values far from zero (default: by all sources)",
    )  # fmt: skip
    table = command.add_argument_group("tables")
    table.add_argument("--set-id", metavar="COLUMN", help="the column that says which set a point belongs to")
    table.add_argument(
        "--missing-targets", choices=("raise", "drop"),
        help="what to do with sets that have no target: refuse them, or leave them out (default: raise)",
    )  # fmt: skip
    table.add_argument(
        "--missing-points", choices=("raise", "drop"),
        help="what to do with rows without an id, a coordinate or a weight: refuse them, or leave them out "
        "(default: raise)",
    )  # fmt: skip
    table.add_argument(
        "--delimiter",
        metavar="CHAR",
        help="what separates the columns of CSV files (default: a comma; .tsv: a tab)",
    )
    table.add_argument("--decimal", choices=(".", ","), help="the decimal mark of CSV files (default: .)")
    table.add_argument(
        "--encoding", metavar="NAME", help="that of CSV files, such as latin-1 (default: utf-8)"
    )
    table.add_argument("--sort", action="store_true", help="order the sets by their ids")
    table.add_argument(
        "--text", nargs="+", default=[], metavar="COLUMN",
        help="columns of a CSV file to take as text, even if they look like numbers",
    )  # fmt: skip
    arrays = command.add_argument_group("arrays")
    arrays.add_argument("--values", metavar="NAME", help="the array with the points (default: values)")
    arrays.add_argument("--offsets", metavar="NAME", help="the array with the starts (default: offsets)")
    instruments = command.add_argument_group("files of instruments")
    instruments.add_argument(
        "--data-set", type=int, metavar="N", help="read data set N of each FCS file alone, counted from 1"
    )
    instruments.add_argument(
        "--id-parts", type=int, metavar="N",
        help="take the last N parts of a path as the id: 2 for plate1/A01 (default: 1)",
    )  # fmt: skip
    add_running_options(command)


def _info(commands: Any) -> None:
    command = _add_command(
        commands, "info", "stores:info", "say what is in a store or a model file", "dkdist info cells.zarr", INFO_TEXT,
        store="a store of sets or of features, or a model file",
    )  # fmt: skip
    add_json(command, SETS, FEATURES, MODEL)


def _verify(commands: Any) -> None:
    command = _add_command(
        commands, "verify", "stores:verify", "read a whole store and check every part of it",
        "dkdist verify cells.zarr",
    )  # fmt: skip
    add_running_options(command)
    add_json(command, VERIFY)


def _compact(commands: Any) -> None:
    command = _add_command(
        commands, "compact", "stores:compact", "write a store again with full chunks", "dkdist compact cells.zarr",
        COMPACT_TEXT,
    )  # fmt: skip
    command.add_argument("--to", metavar="OTHER", help="write another store and leave this one as it is")
    command.add_argument("--overwrite", action="store_true", help="replace OTHER if it is there")
    chunk = "points a chunk, a power of two (default: about 1 MiB of them)"
    command.add_argument("--chunk-rows", type=chunk_rows, metavar="N", help=chunk)
    shard = "points a shard, a multiple of a chunk's (default: where it helps)"
    command.add_argument("--shards", type=whole_number(1, MAX_CHUNK_ROWS - 1), metavar="N", help=shard)
    add_running_options(command)


def _embed(commands: Any) -> None:
    command = _add_command(
        commands, "embed", "fit:embed", "write the features of every set to a store",
        "dkdist embed cells.zarr features.zarr --divergence jensen-shannon --features 5000", EMBED_TEXT,
    )  # fmt: skip
    command.add_argument("output", metavar="OUTPUT", help="the store of features to write")
    add_overwrite_option(command, "a store of features")
    add_feature_options(command)
    add_running_options(command)


def _plan(commands: Any) -> None:
    command = _add_command(
        commands, "plan", "plan:plan", "say what a fit would read, hold and make, and how long it takes",
        "dkdist plan cells.zarr --target diagnosis --features 20000", PLAN_TEXT,
    )  # fmt: skip
    command.add_argument("--target", metavar="NAME", help="what would be predicted")
    add_feature_options(command)
    add_learning_options(command)
    add_cluster_options(command.add_argument_group("running"))
    add_json(command, PLAN)
    command.set_defaults(checkpoint=None, performance_report=None)


def _fit(commands: Any) -> None:
    command = _add_command(
        commands, "fit", "fit:fit", "train a model on a store and save it",
        "dkdist fit cells.zarr --target diagnosis --model diagnosis.npz --train-fraction 0.8", FIT_TEXT,
    )  # fmt: skip
    command.add_argument(
        "--target", required=True, metavar="NAME", help="what to predict ('dkdist info' lists it)"
    )
    command.add_argument(
        "--model", required=True, metavar="FILE", help="where the model goes, such as model.npz"
    )
    add_overwrite_option(command, "a model")
    add_automatic_options(command)
    add_feature_options(command)
    add_learning_options(command)
    checkpoint = "for sgd: keep the run there, so that the same command goes on where it was stopped"
    command.add_argument("--checkpoint", metavar="DIR", help=checkpoint)
    add_running_options(command)
    add_json(command, FIT)


def _predict(commands: Any) -> None:
    command = _add_command(
        commands, "predict", "predict:predict", "predict the target of every set with a saved model",
        "dkdist predict new.zarr --model diagnosis.npz --output diagnosis.csv --probabilities",
    )  # fmt: skip
    command.add_argument(
        "--model", required=True, metavar="FILE", help="a model that 'dkdist fit' or save_model saved"
    )
    command.add_argument(
        "--output", required=True, metavar="FILE",
        help=".csv or .parquet (columns set, prediction), .npz (arrays ids and prediction), .npy (predictions alone), "
        "or - for CSV on standard output; a set without an id goes by its position",
    )  # fmt: skip
    command.add_argument(
        "--probabilities", action="store_true",
        help="also the probability of every class (columns probability_CLASS; in .npz arrays probabilities and "
        "classes); the sets are read twice",
    )  # fmt: skip
    add_overwrite_option(command, "a file")
    add_running_options(command)
    add_json(command, PREDICT)


def _score(commands: Any) -> None:
    command = _add_command(
        commands, "score", "predict:score", "compare a saved model's predictions with a target",
        "dkdist score test.zarr --model diagnosis.npz --target diagnosis",
    )  # fmt: skip
    command.add_argument(
        "--model", required=True, metavar="FILE", help="a model that 'dkdist fit' or save_model saved"
    )
    command.add_argument("--target", required=True, metavar="NAME", help="the true values")
    add_running_options(command)
    add_json(command, SCORE)


def _warm(commands: Any) -> None:
    command = _add_command(
        commands, "warm", "warm:warm", "compile the loops before they are needed", "dkdist warm --all",
        WARM_TEXT, store=None,
    )  # fmt: skip
    command.add_argument(
        "--all",
        action="store_true",
        help="those of everything else, too, but for a few that only huge inputs take: some minutes",
    )
    add_json(command, WARM)


def _report(commands: Any) -> None:
    command = _add_command(
        commands, "report", "report.run_report:report", "write a page about a saved model on a store",
        "dkdist report diagnosis.npz test.zarr --target diagnosis --output report.html", REPORT_TEXT, store=None,
    )  # fmt: skip
    command.add_argument("model", metavar="MODEL", help="a model that 'dkdist fit' or save_model saved")
    command.add_argument("store", metavar="STORE", help="a store of sets, best of some that it never saw")
    command.add_argument("--output", required=True, metavar="FILE", help="the page to write: report.html")
    command.add_argument("--target", metavar="NAME", help="the true values (default: the only target)")
    command.add_argument("--overwrite", action="store_true", help="replace a page that is there")
    add_running_options(command)
