"""Outputs that cannot be written are refused before any work; files of other processes are never replaced."""

from __future__ import annotations

import errno
import os

import numpy as np
import pytest

import dkdist as dk
from dkdist._utils import files
from dkdist.cli import main
from dkdist.cli import output as output_files

WRITING_COMMANDS = [
    ("STORE", ["import", "{csv}", "{place}/x.zarr", "--set-id", "bag"]),
    ("--to", ["compact", "{bags}", "--to", "{place}/x.zarr"]),
    ("OUTPUT", ["embed", "{bags}", "{place}/x.zarr"]),
    ("--model", ["fit", "{bags}", "--target", "wide", "--model", "{place}/x.npz"]),
    (
        "--checkpoint",
        ["fit", "{bags}", "--target", "wide", "--model", "{fine}", "--learner", "sgd", "--checkpoint", "{place}/x"],
    ),
    ("--output", ["predict", "{bags}", "--model", "{model}", "--output", "{place}/x.csv"]),
    ("--output", ["report", "{model}", "{bags}", "--target", "wide", "--output", "{place}/x.html"]),
    ("--output", ["demo", "--output", "{place}/x"]),
    (
        "--performance-report",
        ["verify", "{bags}", "--scheduler", "tcp://127.0.0.1:9", "--performance-report", "{place}/x.html"],
    ),
]  # fmt: skip


@pytest.fixture
def no_work(monkeypatch):
    """Fail where a command begins to work."""

    def work(*_, **__):
        raise AssertionError("work has begun")

    names = (
        "open_sets",
        "import_sets",
        "compact",
        "write_sets",
        "load_model",
        "save_model",
        "write_features",
    )
    for name in names:
        monkeypatch.setattr(dk, name, work)


@pytest.fixture
def place(tmp_path):
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


def fill_in_paths(command, bags, bag_models, place):
    csv = place.parent / "points.csv"
    csv.write_text("bag,x\n1,2.5\n")
    paths = {"csv": csv, "fine": place.parent / "m.npz", "model": bag_models / "wide.npz"}
    return [word.format(bags=bags, place=place, **paths) for word in command]


def refusal(command, capsys):
    """Return the message of a command that exits with status 2 and prints one line."""
    assert main(command) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert captured.out == ""
    return line.removeprefix("dkdist: error: ")


def refuse_new_files(monkeypatch, folder, code, *, writing=False):
    """Make files in a folder fail when they are created, or when they are written."""
    create, write, inside = os.open, files.write_all, set()

    def open_file(path, flags, *args, **options):
        there = flags & os.O_CREAT and os.path.dirname(os.path.abspath(path)) == str(folder)
        if there and not writing:
            raise OSError(code, os.strerror(code), path)
        handle = create(path, flags, *args, **options)
        inside.update([handle] if there else [])
        return handle

    def write_all(handle, *parts):
        if handle in inside:
            raise OSError(code, os.strerror(code))
        write(handle, *parts)

    monkeypatch.setattr(os, "open", open_file)
    monkeypatch.setattr(output_files, "write_all", write_all)


@pytest.mark.parametrize(("option", "command"), WRITING_COMMANDS)
@pytest.mark.parametrize(
    ("code", "writing"), [(errno.EACCES, False), (errno.EROFS, False), (errno.ENOSPC, True)]
)
@pytest.mark.usefixtures("no_work")
def test_unwritable_and_full_folders_are_refused_before_any_work(
    option, command, code, writing, bags, bag_models, place, capsys, monkeypatch
):
    refuse_new_files(monkeypatch, place, code, writing=writing)
    words = fill_in_paths(command, bags, bag_models, place)
    (target,) = [word for word in words if str(place) in word]
    assert refusal(words, capsys) == f"{option} {target} cannot be written: {os.strerror(code)}"
    assert os.listdir(place) == []


@pytest.mark.parametrize(("option", "command"), WRITING_COMMANDS)
@pytest.mark.usefixtures("no_work")
def test_an_output_below_a_file_is_refused(option, command, bags, bag_models, place, capsys):
    place.rmdir()
    place.write_text("a file")
    message = refusal(fill_in_paths(command, bags, bag_models, place), capsys)
    assert message.startswith(f"{option} {place}")
    assert "directory" in message


@pytest.mark.parametrize(
    ("option", "command", "length"),
    # 245 letters are too many for a store, whose hidden staging folder has a longer name
    [(*case, 400) for case in WRITING_COMMANDS]
    + [(*case, 245) for case in WRITING_COMMANDS if case[0] in ("STORE", "--to")],
)
@pytest.mark.usefixtures("no_work")
def test_long_names_are_refused_before_any_work(option, command, length, bags, bag_models, place, capsys):
    command = [word.replace("{place}/x", f"{{place}}/{'x' * (length - 5)}") for word in command]
    message = refusal(fill_in_paths(command, bags, bag_models, place), capsys)
    assert message.startswith(f"{option} {place}")
    assert message.endswith(os.strerror(errno.ENAMETOOLONG))


def test_a_named_pipe_is_not_replaced(bags, place, capsys):
    os.mkfifo(place / "m.npz")
    command = ["fit", bags, "--target", "wide", "--model", str(place / "m.npz"), "--overwrite"]
    assert refusal(command, capsys) == f"--model must be a file; got {place / 'm.npz'}, a named pipe"


def test_a_disk_full_at_the_end_names_the_option(bags, small, place, capsys, monkeypatch):
    def fill(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", fill)
    model = place / "m.npz"
    command = ["fit", bags, "--target", "wide", "--model", str(model), *small]
    assert refusal(command, capsys) == f"--model {model}: {os.strerror(errno.ENOSPC)}"
    assert os.listdir(place) == []


@pytest.mark.parametrize("can_link", [True, False])
def test_a_model_file_of_another_process_is_not_replaced(can_link, bags, small, place, capsys, monkeypatch):
    model, train = place / "m.npz", dk.save_model
    if not can_link:

        def link(*_):
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))

        monkeypatch.setattr(files.os, "link", link)

    def save_late(*args, **options):
        model.write_text("of another process")
        train(*args, **options)

    command = ["fit", bags, "--target", "wide", "--model", str(model), *small]
    with monkeypatch.context() as late:
        late.setattr(dk, "save_model", save_late)
        assert refusal(command, capsys).startswith(f"--model {model}: File exists. Another process wrote it")
    assert model.read_text() == "of another process"
    assert main([*command, "--overwrite"]) == 0
    model.unlink()
    assert main(command) == 0
    assert os.listdir(place) == ["m.npz"]


def test_a_prediction_file_of_another_process_is_not_replaced(bags, bag_models, place, capsys, monkeypatch):
    output = place / "p.csv"

    def open_late(store):
        output.write_text("of another process")
        return dk.SampleSets.from_arrays([np.ones((3, 2))])

    monkeypatch.setattr(dk, "as_sets", open_late)
    command = ["predict", bags, "--model", str(bag_models / "wide.npz"), "--output", str(output)]
    assert refusal(command, capsys).startswith(f"--output {output}: File exists")
    assert output.read_text() == "of another process"


def test_save_model_without_overwrite_refuses_existing_files(place):
    model = dk.RandomFourierFeatures(2, sigma=1.0, random_state=0).fit([[0.0], [1.0]])
    dk.save_model(model, place / "m.npz", overwrite=False)
    with pytest.raises(FileExistsError, match=r"m\.npz"):
        dk.save_model(model, place / "m.npz", overwrite=False)
    dk.save_model(model, place / "m.npz")
    with pytest.raises(TypeError, match="overwrite"):
        dk.save_model(model, place / "m.npz", overwrite="no")
