"""The recipes of docs/clusters.md: blocks of code, by heading."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "clusters.md").read_text()


@dataclass(frozen=True)
class Block:
    """A block of code; its first line may contain the hosts it runs on."""

    language: str
    text: str

    @property
    def hosts(self) -> list[str]:
        return re.findall(r"\d+\.\d+\.\d+\.\d+", self.text.splitlines()[0])


def blocks(heading: str) -> list[Block]:
    """Return all blocks below a heading of the document."""
    (section,) = re.findall(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    return [
        Block(*result) for result in re.findall(r"^```(\w+)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    ]
