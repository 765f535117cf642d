"""What an import tells beside its result, by logging: which columns it took, and how many sets it dropped."""

from __future__ import annotations

import logging
from collections.abc import Iterable

LOG = logging.getLogger("dkdist.importing")


def tell(told: Iterable[str], dropped: int) -> list[str]:
    """Log each line once: what was taken as information, what was dropped as a warning. Gives the former."""
    lines = list(dict.fromkeys(filter(None, told)))
    for line in lines:
        LOG.info(line)
    if dropped:
        LOG.warning(
            "%s", f"{dropped:,} {'set was' if dropped == 1 else 'sets were'} dropped: without a target"
        )
    return lines
