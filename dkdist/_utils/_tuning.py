"""Tuned constants of the helpers, with the trade-off of each and a command that shows its effect."""

# Smaller allocations are not checked. Reading the memory limit takes 0.1 ms, less than filling this number of bytes
# (tests/test_memory_budget.py).
MIN_CHECKED_BYTES = 2**24

# Limits of archives from untrusted sources: sufficient for arrays of points, too small to exhaust memory
# (tests/files/test_hostile_models.py, tests/store/test_file_readers.py).
MAX_MEMBERS = 4096
MAX_DIRECTORY_BYTES = 2**20  # list of members of an archive with MAX_MEMBERS members
MAX_UNCHECKED_BYTES = 2**28  # compressed arrays up to this size may have any compression ratio
MAX_COMPRESSION_RATIO = 100  # limit of larger archives; points and targets compress less
MAX_ITEM_BYTES = 2**20  # itemsize of a dtype
MAX_AXES = 8
READ_BYTES = 2**20  # bytes per read; limits the copy in memory

# Limits of JSON from untrusted sources (tests/files/test_hostile_models.py).
MAX_JSON_BYTES = 2**26
MAX_JSON_DEPTH = 64

# Lengths of texts in summaries, which must fit a page (tests/plain/test_column_text.py, tests/plain/test_html_text.py).
MAX_LISTED_CLASSES = 20
MAX_CELL_CHARACTERS = 300
MAX_NAMES_CHARACTERS = 200  # length of a list of column names in a message (tests/base/test_same_columns.py)

# Concurrent fsync calls; a file-system journal commits several at once (tests/plain/test_whole_files.py).
MAX_CONCURRENT_FLUSHES = 8
