"""``python -m dkdist`` is the command ``dkdist``."""

import sys

from dkdist.cli import main

sys.exit(main())
