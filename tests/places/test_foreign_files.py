"""Pipes, devices, sockets, links out of a store and absurd sizes are refused immediately.

Cases run in a separate process with 1 GB of additional address space and a time limit: a reader that blocks on a pipe,
or allocates what a file declares, fails.
"""

import json
import os
import re
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from zarr.core.buffer import cpu

import dkdist
import dkdist as dk
from dkdist._utils import files
from dkdist.io import StoreFormatError, open_sets, write_sets
from dkdist.io._zarr.location.disk import DiskStore

resource = pytest.importorskip("resource", reason="limits of processes are of POSIX")

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pipes and devices are of POSIX")

READERS = {
    "sets": "found = dk.open_sets(place); found.load(); found.targets['y']; found.ids; found.verify()",
    "verify": "dk.verify_sets(place)",
    "append": "dk.open_sets(place).append([[[1.0, 2.0]]], targets=[1], ids=['z'])",
    "features": "dk.open_features(place).compute()",
}
SECONDS = 60  # of a loaded machine, which are mostly those of the imports: a reader that hangs takes for ever
READ = """
import resource, sys, json, time
import dkdist as dk
import dask.array, dkdist.io, dkdist.models.feature_store, dkdist.io.maintenance
dk.write_sets(sys.argv[1] + ".warm", [[[1.0, 2.0]]]).verify()
for place, reader, most in json.loads(sys.argv[2]):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.process_time()
    try:
        exec(reader)
        said = ""
    except (ValueError, OSError) as error:
        said = f"{type(error).__name__}: {error}"
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(json.dumps([said, grown, time.process_time() - begun]), flush=True)
"""


def read_all(tmp_path, cases):
    """Return (message, KiB of additional memory, CPU seconds) of each case (place, reader)."""
    env = {**os.environ, "PYTHONPATH": str(Path(dkdist.__file__).parents[1])}
    value = json.dumps([(str(place), READERS[reader], 0) for place, reader in cases])
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(READ), str(tmp_path / "w"), value],
        capture_output=True, text=True, env=env, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def make_store(path):
    write_sets(path, np.zeros((3, 40, 2)), np.arange(3), ["a", "b", "c"], chunk_rows=64)
    return path


def features(path):
    dk.write_features(path, np.ones((10, 3), "f4"))
    return path


def replace_file(path, make):
    path.unlink()
    make(path)


def make_socket(path):
    here = os.getcwd()
    os.chdir(path.parent)  # paths of sockets have a short maximum length
    with socket.socket(socket.AF_UNIX) as output:
        output.bind(path.name)
    os.chdir(here)


def link_outside(path):
    outside = path.parents[len(path.parts) - 2 - path.parts.index("places")] / "outside"
    outside.write_bytes(b"{}")
    path.symlink_to(outside)


KINDS = {
    "a named pipe": os.mkfifo,
    "a socket": make_socket,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a link": link_outside,
}
SETS_FILES = [
    "zarr.json",
    "points/zarr.json",
    "points/c/1/0",
    "offsets/c/0",
    "targets/y/c/0",
    "ids/zarr.json",
]
FEATURE_FILES = ["zarr.json", "features/zarr.json", "features/c/0/0"]


def test_files_that_are_not_regular_are_refused(tmp_path):
    places, cases, expected = tmp_path / "places", [], []
    places.mkdir()
    for kind, make in KINDS.items():
        for name in SETS_FILES:
            place = make_store(places / f"{kind} {name.replace('/', '-')}")
            replace_file(place / name, make)
            result = [r for r in ("sets", "verify", "append") if r != "append" or "points/c" not in name]
            cases += [(place, reader) for reader in result]
            expected += [(kind, name)] * len(result)
        for name in FEATURE_FILES:
            place = features(places / f"{kind} features {name.replace('/', '-')}")
            replace_file(place / name, make)
            cases.append((place, "features"))
            expected.append((kind, name))
    for (place, reader), (text, grown, seconds), (kind, name) in zip(
        cases, read_all(tmp_path, cases), expected, strict=True
    ):
        what = f"{kind} for {name} of {place.name}, {reader}: {text!r} in {seconds} s with {grown} KiB"
        assert text.startswith("StoreFormatError"), what
        assert name.partition("/c/")[0] in text, what
        assert grown < 100 * 1024, what
        assert seconds < 5, what


def test_links_out_of_a_store_are_refused_and_links_inside_are_read(tmp_path):
    place = make_store(tmp_path / "s")
    (place / "points/c").rename(tmp_path / "moved")
    (place / "points/c").symlink_to(tmp_path / "moved")
    with pytest.raises(StoreFormatError, match="leads out of it"):
        open_sets(place).load()
    (place / "points/c").unlink()
    (tmp_path / "moved").rename(place / "points/d")
    (place / "points/c").symlink_to("d")
    assert open_sets(place).load().n_points == 120
    (place / "points/zarr.json").rename(place / "points/other")
    (place / "points/zarr.json").symlink_to("other")
    assert open_sets(place).verify().n_sets == 3
    (tmp_path / "link").symlink_to(place)
    assert open_sets(tmp_path / "link").load().n_points == 120


def with_document(place, name, change):
    document = json.loads((place / name).read_text())
    change(document)
    (place / name).write_text(json.dumps(document))
    return place


def of_size(path, size):
    with open(path, "rb+") as file:
        file.truncate(size)


def absurd_stores(places):
    """Yield stores with absurd declared sizes, their readers and the expected messages."""

    def rows(document):
        document["attributes"]["dkdist"]["n_rows"] = 2**52

    def blocks(document):
        document["attributes"]["dkdist"] |= {"n_rows": 2**20, "block_rows": 1}

    def names(document):
        document["attributes"]["dkdist"]["arrays"] = [f"targets/{i}" for i in range(10**6)]

    def some_names(document):
        document["attributes"]["dkdist"]["arrays"] = [f"targets/{i}" for i in range(10**5)]

    def deep(path):
        path.write_text("[" * 10**6 + "]" * 10**6)

    yield (
        with_document(features(places / "rows"), "zarr.json", rows),
        "features",
        "2\\*\\*52|4503599627370496",
    )
    yield with_document(features(places / "blocks"), "zarr.json", blocks), "features", "missing|expected"
    yield with_document(make_store(places / "names"), "zarr.json", names), "sets", "at most 2097152"
    yield with_document(make_store(places / "less"), "zarr.json", some_names), "sets", "at most 4096 arrays"
    for i, name in enumerate(("zarr.json", "points/zarr.json")):
        place = make_store(places / f"sparse {i}")
        of_size(place / name, 2**30)
        yield place, "sets", "at most 2097152"
    place = make_store(places / "chunk")
    of_size(place / "points/c/1/0", 2**34)
    yield place, "sets", "got 17179869184"
    place = features(places / "block")
    of_size(place / "features/c/0/0", 2**34)
    yield place, "features", "got 17179869184"
    place = make_store(places / "deep")
    deep(place / "zarr.json")
    yield place, "sets", r"zarr\.json"


def test_absurd_sizes_are_refused_quickly_and_in_little_memory(tmp_path):
    (tmp_path / "places").mkdir()
    cases = list(absurd_stores(tmp_path / "places"))
    answers = read_all(tmp_path, [(place, reader) for place, reader, _ in cases])
    for (place, _, message), (text, grown, seconds) in zip(cases, answers, strict=True):
        what = f"{place.name}: {text!r} in {seconds} s with {grown} KiB"
        assert text.startswith("StoreFormatError"), what
        assert re.search(message, text), what
        assert grown < 100 * 1024, what
        assert seconds < 5, what


def test_a_pipe_in_place_of_a_zip_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "s.zip")
    (text, _, _), = read_all(tmp_path, [(tmp_path / "s.zip", "sets")])  # fmt: skip
    assert "a named pipe" in text


def test_planted_links_are_not_followed(tmp_path, monkeypatch):
    from dkdist._utils import files

    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    monkeypatch.setattr(files.uuid, "uuid4", lambda: type("Known", (), {"hex": "known"}))
    (tmp_path / ".known.partial").symlink_to(victim)
    with pytest.raises(FileExistsError), files.atomic_write(str(tmp_path / "f")) as handle:
        files.write_all(handle, b"data")
    assert victim.read_bytes() == b"precious"
    assert not (tmp_path / "f").exists()


def full_disk(most_bytes):
    """Limit the size of files, like a full disk; return a function that undoes it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, hard))
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def files_of(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


@pytest.mark.parametrize("most_bytes", [0, 300, 5000])
def test_a_full_disk_leaves_no_files_and_names_the_path(tmp_path, most_bytes):
    points, numbers = np.random.default_rng(0).standard_normal((50, 40, 2)), np.arange(50)
    write_sets(tmp_path / "s", points, numbers, chunk_rows=1024)
    before = files_of(tmp_path)
    for write, where in {
        lambda: write_sets(tmp_path / "t", points): "/(.)?t",
        lambda: write_sets(tmp_path / "s", points, overwrite=True): "/(.)?s",
        lambda: open_sets(tmp_path / "s").append(points, numbers): "/s ",
        lambda: dk.import_sets(tmp_path / "u", [0], lambda source: points): "/(.)?u",
        lambda: dk.compact(tmp_path / "s"): "/(.)?s",
    }.items():
        undo = full_disk(most_bytes)
        try:
            with pytest.raises(
                OSError, match=r"cannot write .*Nothing was committed\. Free disk space"
            ) as error:
                write()
        finally:
            undo()
        assert re.search(f"{tmp_path}{where}", str(error.value))
        assert "File too large" in str(error.value)
        assert files_of(tmp_path) == before
    assert open_sets(tmp_path / "s").verify().n_sets == 50


def test_a_failed_write_keeps_empty_parent_folders(tmp_path):
    above = tmp_path / "mine" / "empty"
    above.mkdir(parents=True)
    undo = full_disk(100)
    try:
        with pytest.raises(OSError, match="Nothing was committed"):
            dk.write_features(above / "f.zarr", np.zeros((9, 2)))
    finally:
        undo()
    assert files_of(tmp_path) == ["mine", "mine/empty"]


def test_a_write_recreates_folders_removed_by_a_failed_one(tmp_path, monkeypatch):
    store = DiskStore(tmp_path / "s")
    begin, gone = files.atomic_write, []

    def atomic_write(path, *, temporary_folder, flush):
        if not gone:  # a failing write removes the folders after this one has checked them
            gone.extend([os.rmdir(temporary_folder), os.rmdir(os.path.dirname(path))])
        return begin(path, temporary_folder=temporary_folder, flush=flush)

    monkeypatch.setattr(files, "atomic_write", atomic_write)
    store.set_sync("points/c/0", cpu.Buffer.from_bytes(b"chunk"))
    assert gone
    assert (tmp_path / "s/points/c/0").read_bytes() == b"chunk"


def test_an_append_deletes_nothing_outside_of_the_store(tmp_path):
    """Tables of earlier commits are removed; a forged one may be a link."""
    sets = [np.zeros((3, 2)), np.ones((5, 2))]
    write_sets(tmp_path / "s", sets)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/zarr.json").write_text("mine")
    (tmp_path / "s/commits/1-aaaaaaaa").symlink_to(tmp_path / "outside")
    with pytest.raises(
        OSError, match=r"was committed before.*commits/1-aaaaaaaa of .* a link that leads out of it"
    ):
        open_sets(tmp_path / "s").append(sets)
    assert (tmp_path / "outside/zarr.json").read_text() == "mine"
    assert len(open_sets(tmp_path / "s")) == 4
    (tmp_path / "s/commits/1-aaaaaaaa").unlink()
    (tmp_path / "s/commits").rename(tmp_path / "commits")
    (tmp_path / "s/commits").symlink_to(tmp_path / "commits")
    before = sorted(p.name for p in (tmp_path / "commits").rglob("*"))
    with pytest.raises(StoreFormatError, match="a link that leads out of it"):
        open_sets(tmp_path / "s").append(sets)
    assert sorted(p.name for p in (tmp_path / "commits").rglob("*")) == before
