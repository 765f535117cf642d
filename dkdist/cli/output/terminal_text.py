"""Text that is safe to print on a terminal."""

from __future__ import annotations

import re

# C0 and C1 controls, bidirectional overrides and lone surrogates: terminals obey them
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def escape_controls(text: object, keep: str = "\n\t") -> str:
    """Return text with control characters as escapes, so that names and ids cannot command a terminal."""
    return CONTROL.sub(lambda m: m[0] if m[0] in keep else m[0].encode("unicode_escape").decode(), str(text))
