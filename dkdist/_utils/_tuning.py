"""Tuned numbers of the helpers: what each trades off, and a command that shows the effect."""

# Requesting the memory limit takes about 0.1 ms, less than filling this many bytes (tests/test_memory_budget.py).
MIN_CHECKED_BYTES = 2**24

# Archives from untrusted sources: generous for arrays of points, too small to exhaust memory
# (tests/files/test_hostile_models.py, tests/store/test_file_readers.py).
MAX_MEMBERS = 4096
MAX_DIRECTORY_BYTES = 2**20  # of an archive with MAX_MEMBERS members
MAX_UNCHECKED_BYTES = 2**28  # bytes that compressed arrays may always unpack to
MAX_COMPRESSION_RATIO = 100  # of larger archives: points and targets are never compressed as much
MAX_ITEM_BYTES = 2**20  # of a dtype
MAX_AXES = 8
READ_BYTES = 2**20  # per read: bounds the copy in memory

# JSON from untrusted sources (tests/files/test_hostile_models.py).
MAX_JSON_BYTES = 2**26
MAX_JSON_DEPTH = 64

# Texts of summaries: longer ones fill the page (tests/plain/test_column_text.py, tests/plain/test_html_text.py).
MAX_LISTED_CLASSES = 20
MAX_CELL_CHARACTERS = 300
MAX_NAMES_CHARACTERS = 200  # of a list of column names in a message (tests/base/test_same_columns.py)

# fsync calls in flight: a file-system journal commits several at once (tests/plain/test_whole_files.py).
MAX_CONCURRENT_FLUSHES = 8
