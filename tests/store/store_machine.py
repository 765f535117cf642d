"""Stateful test: a store must equal a plain list after any sequence of operations on both.

Derive from `StoreMachine` to add rules for further events (kills, lost files, power loss). Such a rule changes
``self.place`` and calls `committed` or `replaced` with the collection that the store now contains.
"""

import shutil
import tempfile
from dataclasses import dataclass, field
from unittest import mock

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule
from zarr.storage import MemoryStore

import dkdist as dk
from dkdist.io import SetWriter, StoreFormatError, open_sets
from dkdist.io._zarr import set_writer as writer

from .samples import assert_same_sets

batches = st.lists(st.integers(1, 9), min_size=1, max_size=4)
layouts = st.sampled_from([{}, {"chunk_rows": 4}, {"chunk_rows": 1}, {"chunk_rows": 4, "shards": 16}])


class Killed(BaseException):
    """Simulated death of a writer."""


@dataclass
class Model:
    """A collection as a list of arrays with targets and ids; all numbers are distinct."""

    sets: list = field(default_factory=list)
    y: list = field(default_factory=list)
    ids: list = field(default_factory=list)

    def more(self, sizes, count):
        """Return the collection with sets of some sizes appended; their numbers start at ``count``."""
        grown = Model(list(self.sets), list(self.y), list(self.ids))
        for size in sizes:
            grown.sets.append((count + np.arange(2 * size, dtype="f4")).reshape(size, 2))
            grown.y.append(count / 4)
            grown.ids.append(f"n{count}")
            count += 2 * size
        return grown

    def chosen(self, index):
        return Model(*([values[i] for i in index] for values in (self.sets, self.y, self.ids)))

    def arguments(self, start=0):
        return self.sets[start:], np.array(self.y[start:]), np.array(self.ids[start:])


class StoreMachine(RuleBasedStateMachine):
    """State machine of the operations on a store in a directory or in memory."""

    views = Bundle("views")

    def __init__(self):
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.count, self.life, self.gone = 0, 0, set()

    def teardown(self):
        shutil.rmtree(self.folder)

    def committed(self, model):
        """Record a new collection of the store; older views must keep reading theirs."""
        self.model = model
        self.count += 2 * sum(map(len, model.sets)) + 1

    def replaced(self, model):
        """Record a replacement of the store; older views must be refused."""
        self.gone.add(self.life)
        self.life += 1
        self.committed(model)

    @initialize(local=st.booleans(), sizes=batches, layout=layouts)
    def begin(self, local, sizes, layout):
        self.place = f"{self.folder}/s.zarr" if local else MemoryStore()
        model = Model().more(sizes, 0)
        dk.write_sets(self.place, *model.arguments(), **layout)
        self.replaced(model)

    @rule(sizes=batches)
    def append(self, sizes):
        model = self.model.more(sizes, self.count)
        open_sets(self.place).append(*model.arguments(len(self.model.sets)))
        self.committed(model)

    @rule(sizes=batches)
    def append_set_by_set(self, sizes):
        model = self.model.more(sizes, self.count)
        with SetWriter(self.place, 2, "a") as writing:
            for i in range(len(self.model.sets), len(model.sets)):
                writing.append(*model.chosen([i]).arguments())
        self.committed(model)

    @rule(sizes=batches)
    def append_without_merging_tails(self, sizes):
        """Append like a writer that is killed right after its commit."""
        model, commit = self.model.more(sizes, self.count), writer.commit_arrays

        def commit_and_die(*args):
            commit(*args)
            raise Killed

        with mock.patch.object(writer, "commit_arrays", commit_and_die), pytest.raises(Killed):
            open_sets(self.place).append(*model.arguments(len(self.model.sets)))
        self.committed(model)

    @rule(sizes=batches)
    def append_without_commit(self, sizes):
        writing = SetWriter(self.place, 2, "a")
        writing.append(*Model().more(sizes, self.count).arguments())
        writing.abort()

    @rule(first=batches, second=batches)
    def append_by_two_writers(self, first, second):
        """The later writer commits, the earlier one is refused."""
        n = len(self.model.sets)
        loser, winner = self.model.more(first, self.count), self.model.more(second, self.count + 1000)
        earlier, later = SetWriter(self.place, 2, "a"), SetWriter(self.place, 2, "a")
        earlier.append(*loser.arguments(n))
        later.append(*winner.arguments(n))
        with pytest.raises(StoreFormatError, match="another writer"):
            earlier.close()
        later.close()
        self.committed(winner)
        self.count += 1000

    @rule(sizes=batches, layout=layouts)
    def replace(self, sizes, layout):
        model = Model().more(sizes, self.count)
        dk.write_sets(self.place, *model.arguments(), overwrite=True, **layout)
        self.replaced(model)

    @precondition(lambda self: isinstance(self.place, str))
    @rule(layout=layouts)
    def compact(self, layout):
        dk.compact(self.place, **layout)
        self.replaced(self.model)

    @rule(layout=layouts, data=st.data())
    def compact_a_selection(self, layout, data):
        """Compact a selection into another place, which becomes the store."""
        n = len(self.model.sets)
        index = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=6))
        self.life += 1  # the old store still exists
        place = f"{self.folder}/s{self.life}.zarr" if isinstance(self.place, str) else MemoryStore()
        dk.compact(open_sets(self.place)[index], place, **layout)
        self.place = place
        self.committed(self.model.chosen(index))

    @rule(target=views)
    def keep_a_view(self):
        return open_sets(self.place), self.model, self.life

    @rule(kept=views)
    def read_a_view(self, kept):
        view, model, life = kept
        if life not in self.gone:
            assert_holds(view, model)
        else:
            with pytest.raises((StoreFormatError, FileNotFoundError), match=r"was replaced|no store"):
                view.load()

    @rule(data=st.data())
    def read_some(self, data):
        n = len(self.model.sets)
        key = data.draw(st.lists(st.integers(-n, n - 1)) | st.slices(n))
        if key != []:
            view = open_sets(self.place)[key]
            assert_holds(view, self.model.chosen(np.arange(n)[key]))

    @rule()
    def verify(self):
        report = open_sets(self.place).verify()
        assert (report.n_sets, report.n_points) == (len(self.model.sets), sum(map(len, self.model.sets)))

    @invariant()
    def store_equals_the_model(self):
        if hasattr(self, "model"):
            assert_holds(open_sets(self.place), self.model)


def assert_holds(view, model):
    """Assert that all sets, targets and ids of a view equal the model."""
    assert len(view) == len(model.sets)
    if model.sets:
        assert_same_sets(view.load(), dk.SampleSets.from_arrays(model.sets))
    assert view.targets["y"].tolist() == model.y
    assert view.ids.tolist() == model.ids
