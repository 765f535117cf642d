"""What a leaderboard means, in words: which baseline is the best, and what a lead over each of them says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

CONSTANT = "constant"


class Words(NamedTuple):
    """What is said of a baseline: that it is the best one, what a lead over it means, and what the lack of one."""

    best: str
    ahead: str
    beside: str
    over: str


BASELINES = {
    CONSTANT: Words(
        "The best baseline is a constant: nothing simple tells the target.",
        "The sets tell the target",
        "The sets do not tell the target",
        "a constant",
    ),
    "sizes": Words(
        "The best baseline is the size of the sets.",
        "What is in the sets tells more than how large they are",
        "What is in the sets tells no more than how large they are",
        "sizes",
    ),
    "means": Words(
        "The best baseline is the means of the sets.",
        "The shape of the sets helps",
        "The shape of the sets does not help",
        "the means",
    ),
    "moments": Words(
        "The best baseline is means and covariances.",
        "The shape of the sets helps beyond their covariances",
        "The shape of the sets does not help beyond their covariances",
        "the moments",
    ),
}


def in_words(
    entries: Sequence[Mapping[str, Any]], margins: Mapping[str, tuple[float, float]], what: str, how: str
) -> str:  # fmt: skip
    """The leaderboard as a text; ``margins`` are the model's lead over each baseline, with its error."""
    width = max(len(entry["name"]) for entry in entries)
    lines = [f"{what}, {how}", ""]
    for entry in entries:
        mark = "  (baseline)" if entry["baseline"] else ""
        lines.append(f"  {entry['name']:<{width}}  {entry['score']: .4f} +- {entry['std_error']:.4f}{mark}")
    best = next(entry["name"] for entry in entries if entry["baseline"])
    lines += ["", f"{BASELINES[best].best} {_verdict(best, *margins[best])}"]
    lines += [_verdict(name, *lead) for name, lead in margins.items() if name != best]
    return "\n".join(lines)


def _verdict(name: str, lead: float, error: float) -> str:
    words = BASELINES[name]
    figures = f"{lead:+.3f} +- {error:.3f} over {words.over}"
    if lead > 2 * error:
        return f"{words.ahead}: {figures}."
    worse = f" It is worse: take {words.over} instead." if lead < -2 * error else ""
    return f"{words.beside}: {figures}.{worse}"
