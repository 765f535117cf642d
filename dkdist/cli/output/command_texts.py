"""What commands say of themselves in their help."""

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
