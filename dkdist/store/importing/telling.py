"""What an import tells beside its result, by logging: which columns it took, and how many sets it dropped."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable

LOG = logging.getLogger("dkdist.importing")


def tell(told: Iterable[str], dropped: int, *, verbose: bool = False) -> None:
    """Log each line once: what was taken as information, what was dropped as a warning.

    ``verbose`` shows information on standard error where nobody logs it.
    """
    for line in dict.fromkeys(filter(None, told)):
        LOG.info("%s", line)
        if verbose and not LOG.isEnabledFor(logging.INFO):
            print(f"import: {line}", file=sys.stderr)
    if dropped:
        LOG.warning(
            "%s", f"{dropped:,} {'set was' if dropped == 1 else 'sets were'} dropped: without a target"
        )
