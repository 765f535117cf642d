"""Tuned values of plans, graphs and tasks: the trade-off of each, and a command that measures it."""

# Blocks. Larger blocks save Python work, messages and shared chunks per set; smaller ones save memory and balance
# threads (python benchmarks/million.py, python benchmarks/simulate.py table).
MAX_BLOCK_SETS = 1024  # 20 MB of features for 5,000 columns
MIN_SETS_FOR_LARGE_BLOCKS = 64 * MAX_BLOCK_SETS  # blocks hold twice as many sets from this number of sets on
MAX_BLOCK_BYTES = 32 * 2**20  # points, or rows of an array, in a block (python benchmarks/memory.py)

# Graphs and folds.
MAX_GRAPH_JOBS = (
    128  # a scheduler holds this many jobs of a run at a time; also between two reports of a state
)
MAX_WINDOW_BLOCKS = 64  # bounds the memory of unfinished blocks of a fold (python benchmarks/memory.py)
MAX_WAITING_BYTES = 96 * 2**20  # small blocks that wait for their step, per worker process
WAITING_MEMORY_DIVISOR = (
    8  # and at most this fraction of its free memory (python benchmarks/simulate.py real)
)

# Threads of this machine.
MAX_CONCURRENT_BLOCKS = 4  # pieces of work that each take much memory (python benchmarks/memory.py)
N_IO_THREADS = (
    2  # in addition to one thread per core: some wait for a disk (python benchmarks/roofline.py pipeline)
)

# Cached rows (cache="auto"), which use memory without a request of the user (tests/linear/test_kept_rows.py).
MAX_AUTO_CACHE_BYTES = 2**28
AUTO_CACHE_MEMORY_DIVISOR = 8

# Tasks of a cluster. A task costs the scheduler about 1 ms; fewer, longer tasks leave threads idle at the end and lose
# more work with a worker (python benchmarks/cluster.py, python benchmarks/simulate.py measure).
TASKS_PER_SYNC = 4  # tasks of a fold between two states that the client holds: work lost with a worker
FIRST_TASK_JOBS = 2  # jobs in the first tasks of a fold, before the throughput is known
TARGET_TASK_SECONDS = 0.2  # amortises about 1 ms of scheduler overhead per task
RATE_WINDOW_SECONDS = 10.0  # longer than replacing a worker that died (tests/execution/test_stream.py)
MAX_TASK_GROWTH = 4  # factor between the jobs per task before and after a sync
MIN_FOLD_TASKS = 2  # tasks of a fold in flight on a cluster of one thread
MAP_TASKS_PER_THREAD = 4  # tasks of a map in flight
MIN_MAP_THREADS = 4  # assumed for the number of map tasks in flight on smaller clusters
TTL_SECONDS = 1.0  # the cached number of threads of a cluster is used up to this age

# Clusters that lose connections and workers (tests/hangs/test_lost_workers.py, tests/clusters/test_joining.py).
MAX_RECONNECTIONS = 3  # of one graph
POLL_SECONDS = 0.1  # interval of polling results and the status of a connection
WORKER_CHECK_SECONDS = 2.0  # interval of requests for the number of workers
SCHEDULER_TIMEOUT_SECONDS = 15.0  # a scheduler that unpickles a large graph does not answer for seconds
NEW_WORKER_TIMEOUT_SECONDS = 10.0  # a stopped worker must not delay the end of a run for long
CONNECTION_TIMEOUT_SECONDS = 5.0  # a connection, an answer, or a scheduler file that does not exist yet

# Memory of workers: blocks leave gaps of other sizes, which the next blocks do not fill (python benchmarks/memory.py).
MAX_UNTRIMMED_BYTES = 96 * 2**20  # growth that is tolerated: about one block with its intermediate results
TRIM_THRESHOLD_BYTES = 512 * 2**20  # freed memory that glibc keeps; returning it costs a tenth of a run
MMAP_THRESHOLD_BYTES = 32 * 2**20  # largest value that glibc accepts on 64-bit systems (man 3 mallopt)

# Dashboard (tests/dashboard/test_curves.py, tests/hangs/test_soak.py).
MAX_CURVE_POINTS = 1000  # more are thinned: each is sent to every open page once a second
MAX_SPANS = 64  # runs whose spans the scheduler remembers
HEARTBEAT_GRACE_SECONDS = 60.0  # a heartbeat that names a forgotten span would fail
MIN_REPORT_SECONDS = 0.25  # between two loss reports of a process

# Data frames: rows small enough for the cache, enough to amortise the cost per batch (python benchmarks/speed.py).
BATCH_ROWS = 2**18
BUFFER_BYTES = 2**18  # per column and read, into reused memory

# Matrices of pairs (python benchmarks/set_distances.py).
SEGMENT_TILES = 128  # tiles that this process copies into the matrix together
MAX_TILE_SETS = 32  # sets per side: index trees are rebuilt in every tile, a sixteenth as many as pairs
MIN_TILES_PER_SIDE = 8  # several tiles for every thread, where there are enough sets
