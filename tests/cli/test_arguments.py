"""Empty, invalid and unsuitable arguments are refused before any work, in one line that names the option."""

from __future__ import annotations

import argparse
import os

import pytest

import dkdist as dk
from dkdist.cli import main, parser


def text_arguments():
    """Yield (command, argument as typed) of every argument that takes free text."""
    commands = next(a for a in parser.build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    for name, command in commands.choices.items():
        for action in command._actions:
            if action.nargs != 0 and action.choices is None and not isinstance(action.default, (int, float)):
                yield name, action.option_strings[0] if action.option_strings else action.metavar


REQUIRED = {
    "import": ["SOURCE", "STORE"],
    "embed": ["STORE", "OUTPUT"],
    "fit": ["STORE", "--target", "--model"],
    "predict": ["STORE", "--model", "--output"],
    "score": ["STORE", "--model", "--target"],
    "report": ["MODEL", "STORE", "--output"],
    **{name: ["STORE"] for name in ("info", "verify", "compact", "plan")},
}


def build_command(command, changed):
    """Return the words of a command; each argument has the value "x", unless changed."""
    arguments = dict.fromkeys(REQUIRED.get(command, []), "x") | changed
    named = [f"{name}={value}" for name, value in arguments.items() if name.startswith("-")]
    return [command, *(v for name, v in arguments.items() if not name.startswith("-")), *named]


def refusal(command, capsys):
    """Return the only line on standard error of a command that must exit with status 2."""
    with pytest.raises(SystemExit, match="2"):
        main(command)
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert captured.out == ""
    assert line.startswith(f"dkdist {command[0]}: error: argument ")
    return line


@pytest.mark.parametrize(
    ("command", "argument"), [(command, name) for command, names in REQUIRED.items() for name in names]
)
def test_missing_required_arguments_are_named(command, argument, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = build_command(command, {})
    arguments.remove("x" if argument[0] != "-" else f"{argument}=x")
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    missing = capsys.readouterr().err.partition("required: ")[2]
    assert missing
    # the next positional argument takes the place of a missing one
    assert argument in missing or argument[0] != "-"


@pytest.mark.parametrize(("command", "argument"), list(text_arguments()))
def test_empty_text_is_refused_for_every_argument(command, argument, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("bag,x\n1,2.5\n")
    for empty in ("", " "):
        line = refusal(build_command(command, {argument: empty}), capsys)
        assert f" {argument}:" in line or f" {argument}/" in line
    assert os.listdir(tmp_path) == ["t.csv"]


@pytest.mark.parametrize("function", [dk.open_sets, dk.open_features, dk.load_model, dk.verify_sets])
def test_empty_paths_are_refused_by_functions(function):
    message = (
        "the path of a file must not be empty"
        if function is dk.load_model
        else "store must be a path or a URL; got an empty string"
    )
    with pytest.raises(ValueError, match=message):
        function("")


def test_a_model_is_not_saved_at_an_empty_path(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    model = dk.RandomFourierFeatures(2, sigma=1.0, random_state=0).fit([[0.0], [1.0]])
    with pytest.raises(ValueError, match="must not be empty"):
        dk.save_model(model, "")


LIMITS = [
    ("fit", "--features", ["-4", "3", "x", "1e3"]),
    ("fit", "--n-basis", ["0", "-1", "x", "1.5"]),
    ("fit", "--bandwidth", ["0", "-1", "nan", "inf", "1,-1", ",", "x"]),
    ("fit", "--domain", ["1,0", "1,1", "1", "0,nan", "-1,inf", "1,2,3", "x"]),
    ("fit", "--sigma", ["0", "-1", "nan", "inf", "1,2", "1e31", "x"]),
    ("fit", "--seed", ["-1", "1.5", "x"]),
    ("fit", "--alpha", ["-1", "nan", "inf", "1,-1", ",", "x"]),
    ("fit", "--epochs", ["0", "-1", "1000001", "x"]),
    ("fit", "--train-fraction", ["0", "-1", "1.1", "nan", "x"]),
    ("fit", "--budget", ["0", "-1", "nan", "inf", "1,2", "x"]),
    ("plan", "--features", ["-4"]),
    ("embed", "--sigma", ["-4"]),
    ("compact", "--chunk-rows", ["0", "-4", "3", "x", str(2**70)]),
    ("compact", "--shards", ["0", "-4", "x", str(2**70)]),
]


@pytest.mark.parametrize(
    ("command", "option", "value"), [(c, o, v) for c, o, values in LIMITS for v in values]
)
def test_values_outside_their_limits_name_the_option(command, option, value, capsys):
    line = refusal(build_command(command, {option: value}), capsys)
    assert f"argument {option}" in line
    assert f"got '{value}'" in line
    assert " must be " in line


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("--features", ["0", "2000"]), ("--n-basis", ["auto", "2"]), ("--bandwidth", ["auto", "0.1", "0.1,0.2"]),
        ("--domain", ["-1,1", "unit", "data", "robust"]), ("--sigma", ["median", "1e-3"]), ("--seed", ["0", "7"]),
        ("--alpha", ["0", "1e-3,1"]), ("--epochs", ["1"]), ("--train-fraction", ["1", "0.5"]), ("--budget", ["0.5"]),
    ],
)  # fmt: skip
def test_values_within_their_limits_are_accepted(option, values):
    for value in values:
        assert parser.build_parser().parse_args(build_command("fit", {option: value})).command == "fit"


UNSUITABLE = [
    (
        "wide",
        ["--train-fraction", "0.001"],
        "--train-fraction 0.001 leaves 0 of 60 sets to train on and 60 to",
    ),
    (
        "wide",
        ["--train-fraction", "0.999"],
        "59 of 60 sets to train on and 1 to score: each needs at least 2",
    ),
    ("spread", ["--train-fraction", "0.01"], "--train-fraction 0.01 leaves 0 of 60"),
    ("wide", ["--task", "regress"], "--task regress needs numbers, but target 'wide' contains text"),
    (
        "spread",
        ["--task", "classify"],
        "--task classify needs classes, but target 'spread' contains fractions",
    ),
    ("wide", ["--alpha", "0"], "--alpha must be above 0 for --learner ridge"),
    ("wide", ["--seed", str(2**32)], "--seed must be at most 4294967295"),
    ("absent", [], "--target absent: the store has no target 'absent'"),
    ("wide", ["--bandwidth", "1,2,3"], "--bandwidth must be a positive number or 2 of them"),
]
UNSUITABLE_FOR_POINTS = [  # only a fit reads points
    (
        "wide",
        ["--bandwidth", "1e-9"],
        "Increase --bandwidth, reduce --n-basis, or use --structure='marginal'",
    ),
    ("wide", ["--n-basis", "100000", "--bandwidth", "0.1"], "Reduce --n-basis or use --structure='marginal'"),
    ("wide", ["--domain=-0.01,0.01"], "Pass a larger domain, outside='clip' or --domain='robust'"),
]


@pytest.mark.parametrize(
    ("command", "target", "options", "message"),
    [("fit", *case) for case in UNSUITABLE + UNSUITABLE_FOR_POINTS]
    + [("plan", *case) for case in UNSUITABLE],
)
@pytest.mark.filterwarnings("default:bandwidth")
def test_values_that_do_not_suit_the_store_name_the_option(
    command, target, options, message, bags, tmp_path, capsys
):
    model = [f"--model={tmp_path / 'm.npz'}"] if command == "fit" else []
    assert main([command, bags, "--target", target, *model, *options]) == 2
    *_, line = capsys.readouterr().err.splitlines()
    assert message in line
    assert os.listdir(tmp_path) == []


def test_splitting_a_class_of_one_set_is_refused(tmp_path, capsys):
    store = str(tmp_path / "s.zarr")
    dk.write_sets(store, [[[float(i)]] for i in range(5)], targets={"kind": ["a", "a", "a", "a", "b"]})
    command = [
        "fit",
        store,
        "--target",
        "kind",
        "--model",
        str(tmp_path / "m.npz"),
        "--train-fraction",
        "0.5",
    ]
    assert main(command) == 2
    assert (
        "--train-fraction 0.5 requires at least 2 sets of every class; class 'b' has 1"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("error", [MemoryError(), MemoryError("Unable to allocate 8 GiB")])
def test_exhausted_memory_prints_one_line_with_advice(error, bags, tmp_path, capsys, monkeypatch):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(dk, "DivergenceEmbedding", fail)
    assert main(["fit", bags, "--target", "wide", "--model", str(tmp_path / "m.npz")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "Pass smaller --features or --n-basis" in line
    assert "dkdist: error: :" not in line


def test_an_error_prints_one_line_without_control_characters(capsys, monkeypatch):
    def fail(path):
        raise ValueError("two\nlines and \x1b[2J")

    monkeypatch.setattr(dk, "open_sets", fail)
    assert main(["info", "any"]) == 2
    assert capsys.readouterr().err == "dkdist: error: two lines and \\x1b[2J\n"


TEXT = "bag,größe,x\nä,1,2.5\nb,2,3.5\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (TEXT.encode("latin-1"), "(--encoding latin-1)"),
        (b"bag,x\n" + b"a,1.5\n" * 50 + b"\xe4,2.5\n", "(--encoding latin-1)"),
        (b"bag,x\n" + b"a,1.5\n" * 500_000 + b"\xe4,2.5\n", "(--encoding latin-1)"),
        (TEXT.encode("utf-16"), "(--encoding utf-16)"),
        (TEXT.encode("utf-16-le"), "(--encoding utf-16)"),
        (b"bag;x\n1;2.5\n2;3.5\n", "expected commas: set delimiter=';' (--delimiter)"),
        (b"bag;x\n1;2,5\n2;3,5\n", "expected commas: set delimiter=';' (--delimiter)"),
        (b"bag\tx\n1\t2.5\n2\t3.5\n", "separated by tabs, expected commas: set delimiter"),
    ],
    ids=["latin-1", "latin-1 later", "latin-1 much later", "utf-16", "utf-16 without BOM", "semicolons",
         "decimal commas", "tabs"],
)  # fmt: skip
@pytest.mark.parametrize("append", [False, True])
def test_csv_with_another_encoding_or_delimiter_is_refused_with_the_option(
    content, message, append, tmp_path, capsys
):
    (tmp_path / "t.csv").write_bytes(content)
    store = str(tmp_path / "s.zarr")
    if append:
        dk.write_sets(store, [[[1.0]]], ids=["0"])
    command = ["import", str(tmp_path / "t.csv"), store, "--set-id", "bag", "--points", "x"]
    assert main([*command, *(["--append"] if append else [])]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert os.path.exists(store) == append


def test_a_missing_column_names_its_option(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("bag,x\n1,2.5\n")
    command = ["import", str(tmp_path / "t.csv"), str(tmp_path / "s.zarr")]
    for option, value, rest in (
        ("--set-id", "sack", []),
        ("--points", "x,z", ["--set-id", "bag"]),
        ("--weight", "w", ["--set-id", "bag"]),
        ("--target", "label", ["--set-id", "bag"]),
        ("--text", "code", ["--set-id", "bag"]),
    ):
        assert main([*command, option, value, *rest]) == 2
        assert f"(see {option})" in capsys.readouterr().err
