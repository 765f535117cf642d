"""Tuned constants of plans, graphs and tasks, with the trade-off of each and a command that measures it."""

# Block sizes. Larger blocks reduce Python overhead, messages and reads of shared chunks per set; smaller blocks reduce
# memory and balance threads (python benchmarks/million.py, python benchmarks/simulate.py table).
MAX_BLOCK_SETS = 1024  # sets per block: 20 MB of features for 5,000 columns
MIN_SETS_FOR_LARGE_BLOCKS = 64 * MAX_BLOCK_SETS  # in larger collections blocks hold twice as many sets
MAX_BLOCK_BYTES = 32 * 2**20  # bytes of points or of array rows per block (python benchmarks/memory.py)

# Blocks of Dask arrays (python benchmarks/inputs.py).
MAX_UNSPLIT_BYTES = 4 * MAX_BLOCK_BYTES  # rows of an unsplit block; splitting computes its chunk more often
JOINED_CHUNK_BYTES = 2**20  # small chunks of Zarr arrays are read together: a task costs about 1 ms
MAX_CHUNK_COPIES = 4  # a chunk that so many blocks need is computed for each; others stay in memory meanwhile

# Limits of graphs and folds.
MAX_GRAPH_JOBS = 128  # maximum number of jobs per graph, and between two reports of a state
MAX_WINDOW_BLOCKS = 64  # limits the memory of unfinished blocks of a fold (python benchmarks/memory.py)
MAX_WAITING_BYTES = 96 * 2**20  # total size of blocks that wait for their step, per worker process
WAITING_MEMORY_DIVISOR = 8  # limit: 1/8 of the free memory of a worker (python benchmarks/simulate.py real)

# Threads of local runs.
MAX_CONCURRENT_BLOCKS = 4  # maximum number of concurrent memory-intensive tasks (python benchmarks/memory.py)
N_IO_THREADS = 2  # in addition to one per core: some wait for disks (python benchmarks/roofline.py pipeline)

# Limits of rows cached by default, with cache="auto" (tests/linear/test_kept_rows.py).
MAX_AUTO_CACHE_BYTES = 2**28
AUTO_CACHE_MEMORY_DIVISOR = 8

# Tasks of a cluster. A task costs the scheduler about 1 ms. With fewer, longer tasks, threads are idle at the end and
# the death of a worker loses more work (python benchmarks/cluster.py, python benchmarks/simulate.py measure).
TASKS_PER_SYNC = 4  # tasks of a fold between two states sent to the client; a lost worker repeats them
FIRST_TASK_JOBS = 2  # jobs per task of a fold until the throughput is measured
TARGET_TASK_SECONDS = 0.2  # amortises about 1 ms of scheduler overhead per task
RATE_WINDOW_SECONDS = 10.0  # longer than the restart of a worker (tests/execution/test_stream.py)
MAX_TASK_GROWTH = 4  # maximum factor by which jobs per task change at a sync
# Tasks of a tree sum per thread: more tasks balance threads better, fewer tasks send fewer partial sums.
MIN_SUBTREES_PER_THREAD = 3
MIN_FOLD_TASKS = 2  # minimum number of tasks of a fold in flight
# Smaller predictions take less time than the messages of a cluster (benchmarks/cluster.py).
MAX_LOCAL_BYTES = 2**20
MAP_TASKS_PER_THREAD = 4  # tasks of a map in flight per thread
MIN_MAP_THREADS = 4  # smaller clusters get as many map tasks as one with this number of threads
TTL_SECONDS = 1.0  # the cached number of threads of a cluster is refreshed after this time

# Clusters that lose connections and workers (tests/hangs/test_lost_workers.py, tests/clusters/test_joining.py).
MAX_RECONNECTIONS = 3  # maximum number of reconnections per graph
POLL_SECONDS = 0.1  # interval for polling results and the status of the connection
WORKER_CHECK_SECONDS = 2.0  # interval for checking the number of workers
SCHEDULER_TIMEOUT_SECONDS = 15.0  # a scheduler may be blocked for seconds while it unpickles a large graph
NEW_WORKER_TIMEOUT_SECONDS = 10.0  # limits the delay of the end of a run by a stopped worker
CONNECTION_TIMEOUT_SECONDS = 5.0  # limit for connecting, for a response, and for a scheduler file to appear

# Memory of workers: freed blocks leave gaps that blocks of other sizes do not fill (python benchmarks/memory.py).
MAX_UNTRIMMED_BYTES = 96 * 2**20  # growth that is not trimmed: about one block with its intermediate results
TRIM_THRESHOLD_BYTES = 512 * 2**20  # freed memory that glibc keeps; returning it costs 10 % of the run time
MMAP_THRESHOLD_BYTES = 32 * 2**20  # largest value that glibc accepts on 64-bit systems (man 3 mallopt)

# Dashboard (tests/dashboard/test_curves.py, tests/hangs/test_soak.py).
MAX_CURVE_POINTS = 1000  # longer curves are thinned: all points are sent to every open page each second
MAX_SHOWN_RUNS = 20  # rows of the table of runs
MAX_SPANS = 64  # runs whose spans stay in the scheduler; they are removed after as many further runs
HEARTBEAT_GRACE_SECONDS = 60.0  # delay of removing a span: a heartbeat that names it would fail
MIN_EVENT_SECONDS = 0.25  # minimum interval between the events of a run that are sent to the scheduler
MIN_LOG_SECONDS = 10.0  # minimum interval between the lines of a run in a log file
# Minimum interval between equal warnings of a worker about the user's own computations.
MIN_WARNING_SECONDS = 10.0

# Batches of data frames fit the CPU cache and amortise the fixed cost of a batch (python benchmarks/speed.py).
BATCH_ROWS = 2**18
BUFFER_BYTES = 2**18  # size of the reused buffer for reads of one column

# Matrices of pairs (python benchmarks/set_distances.py).
SEGMENT_TILES = 128  # number of tiles that this process copies into the matrix at once
MAX_TILE_SETS = 32  # sets per side of a tile; each tile builds 64 index trees for 1,024 pairs
MIN_TILES_PER_SIDE = 8  # several tiles per thread if there are enough sets
