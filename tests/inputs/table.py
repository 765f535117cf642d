"""The table of docs/inputs.md: print it with ``python -m inputs.table`` in the folder tests."""

from __future__ import annotations

from inputs.kinds import CLUSTER_KINDS, KINDS, LAZY, OPTIONAL_KINDS

RESULTS = {True: "lazy", False: "in memory"}


def rows() -> list[str]:
    """Return the rows of the table, lazy collections first."""
    names = [*KINDS, *CLUSTER_KINDS, *OPTIONAL_KINDS]
    return [
        f"| {name} | {RESULTS[name in LAZY]} |" for name in sorted(names, key=lambda n: (n not in LAZY, n))
    ]


if __name__ == "__main__":
    print("\n".join(rows()))
