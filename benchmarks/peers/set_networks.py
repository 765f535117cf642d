"""Networks of sets: one network for every point, a pooling over the points, one network for what was pooled.

DeepSets:          Zaheer, Kottur, Ravanbakhsh, Poczos, Salakhutdinov, Smola, "Deep Sets" (2017), Theorem 2.
attention pooling: Lee, Lee, Kim, Kosiorek, Choi, Teh, "Set Transformer" (2019), pooling by multihead attention (PMA)
                   with one seed.

A batch is x (B, L, d) float32, and ``there`` (B, L): False where a set of fewer than L points is filled up; None where
no set is.
"""

from __future__ import annotations

import timeit
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn

HEADS = 4  # of the attention


@dataclass(frozen=True)
class Setting:
    """What is chosen of a network: its width, its layers for a point, the learning rate, and the share of dropout."""

    width: int
    depth: int
    rate: float
    dropout: float = 0.0


class MeanPooling(nn.Module):
    """The mean over the points."""

    def forward(self, z: Tensor, there: Tensor | None) -> Tensor:
        if there is None:
            return z.mean(dim=1, dtype=torch.float32)
        total = z.masked_fill(~there[..., None], 0).sum(dim=1, dtype=torch.float32)
        return total / there.sum(dim=1, keepdim=True)


class MaxPooling(nn.Module):
    """The largest value of every column."""

    def forward(self, z: Tensor, there: Tensor | None) -> Tensor:
        if there is not None:
            z = z.masked_fill(~there[..., None], -torch.inf)
        return z.amax(dim=1)


class AttentionPooling(nn.Module):
    """A learned seed looks at all points: the block MAB(seed, points) of the Set Transformer (equations 6 to 11).

    Because all sets share the one seed, keys and values need not be made for every point: logits are points times one
    vector a head, and values are made of weighted means. `attention` holds the parameters, and defines the result.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.seed = nn.Parameter(torch.empty(1, 1, width))
        nn.init.xavier_uniform_(self.seed)
        self.of_points = nn.Sequential(nn.Linear(width, width), nn.ReLU())
        self.attention = nn.MultiheadAttention(width, HEADS, batch_first=True)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.forwards = nn.Sequential(nn.Linear(width, width), nn.ReLU())

    def forward(self, z: Tensor, there: Tensor | None) -> Tensor:
        h = self.first(self.seed[0] + self.seen(self.of_points(z), there))
        return self.second(h + self.forwards(h))

    def seen(self, points: Tensor, there: Tensor | None) -> Tensor:
        """(B, width): what the seed sees."""
        width = points.shape[2]
        of_query, of_key, of_value = self.attention.in_proj_weight.view(3, HEADS, -1, width)
        bias = self.attention.in_proj_bias.view(3, HEADS, -1)
        query = of_query @ self.seed[0, 0] + bias[0]
        vectors = torch.einsum("he,hew->wh", query, of_key) / query.shape[1] ** 0.5
        logits = points @ vectors  # but for what the bias of keys adds, the same to all points
        if there is not None:
            logits = logits.masked_fill(~there[..., None], -torch.inf)
        means = logits.softmax(dim=1).transpose(1, 2) @ points
        values = torch.einsum("bhw,hew->bhe", means, of_value) + bias[2]
        return self.attention.out_proj(values.flatten(1))


class SetNetwork(nn.Module):
    """x (B, L, d) to ``outputs`` numbers for every set.

    In training, what is done for every point is done in bfloat16 where that is faster, as mixed precision is used
    today; predictions are made in float32.
    """

    def __init__(self, d: int, outputs: int, pooling: str, setting: Setting) -> None:
        super().__init__()
        self.half = half_is_faster()
        layers: list[nn.Module] = []
        for k in range(setting.depth):
            layers += [nn.Linear(setting.width if k else d, setting.width), nn.ReLU()]
        self.of_points = nn.Sequential(*layers)
        self.pooling = POOLINGS[pooling](setting.width)
        self.of_sets = nn.Sequential(
            nn.Dropout(setting.dropout), nn.Linear(setting.width, setting.width), nn.ReLU(),
            nn.Dropout(setting.dropout), nn.Linear(setting.width, outputs),
        )  # fmt: skip

    def forward(self, x: Tensor, there: Tensor | None = None) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.half and self.training):
            pooled = self.pooling(self.of_points(x), there)
        return self.of_sets(pooled.float())


POOLINGS = {"mean": lambda _: MeanPooling(), "max": lambda _: MaxPooling(), "attention": AttentionPooling}


@cache
def half_is_faster() -> bool:
    """Whether this processor multiplies in bfloat16 faster than in float32, by the best of some trials."""
    seconds = {}
    for dtype in (torch.float32, torch.bfloat16):
        a, b = torch.ones(8192, 128, dtype=dtype), torch.ones(128, 128, dtype=dtype)
        seconds[dtype] = min(timeit.repeat(lambda a=a, b=b: a @ b, number=1, repeat=10))
    return seconds[torch.bfloat16] < seconds[torch.float32]
