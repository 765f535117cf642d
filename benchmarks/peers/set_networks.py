"""Networks of sets: a network applied to every point, a pooling over points, and a network of the pooled vector.

DeepSets:          Zaheer, Kottur, Ravanbakhsh, Poczos, Salakhutdinov, Smola, "Deep Sets" (2017), Theorem 2.
attention pooling: Lee, Lee, Kim, Kosiorek, Choi, Teh, "Set Transformer" (2019), pooling by multihead attention (PMA)
                   with one seed.

A batch is x (B, L, d) float32, and ``mask`` (B, L), which is False for padding, or None without padding.
"""

from __future__ import annotations

import timeit
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn

N_HEADS = 4


@dataclass(frozen=True)
class Setting:
    """Hyperparameters: width, number of layers per point, learning rate, and dropout probability."""

    width: int
    depth: int
    rate: float
    dropout: float = 0.0


class MeanPooling(nn.Module):
    """Mean over the points."""

    def forward(self, z: Tensor, mask: Tensor | None) -> Tensor:
        if mask is None:
            return z.mean(dim=1, dtype=torch.float32)
        total = z.masked_fill(~mask[..., None], 0).sum(dim=1, dtype=torch.float32)
        return total / mask.sum(dim=1, keepdim=True)


class MaxPooling(nn.Module):
    """Maximum of every column."""

    def forward(self, z: Tensor, mask: Tensor | None) -> Tensor:
        if mask is not None:
            z = z.masked_fill(~mask[..., None], -torch.inf)
        return z.amax(dim=1)


class AttentionPooling(nn.Module):
    """Attention of a learned seed to all points: MAB(seed, points) of the Set Transformer (equations 6 to 11).

    As all sets share the seed, keys and values of single points are not needed: logits are products of points with one
    vector per head, and values are computed from weighted means. The parameters are those of `attention`.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.seed = nn.Parameter(torch.empty(1, 1, width))
        nn.init.xavier_uniform_(self.seed)
        self.of_points = nn.Sequential(nn.Linear(width, width), nn.ReLU())
        self.attention = nn.MultiheadAttention(width, N_HEADS, batch_first=True)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.forwards = nn.Sequential(nn.Linear(width, width), nn.ReLU())

    def forward(self, z: Tensor, mask: Tensor | None) -> Tensor:
        h = self.first(self.seed[0] + self.attend(self.of_points(z), mask))
        return self.second(h + self.forwards(h))

    def attend(self, points: Tensor, mask: Tensor | None) -> Tensor:
        """Return the attention of the seed (B, width)."""
        width = points.shape[2]
        of_query, of_key, of_value = self.attention.in_proj_weight.view(3, N_HEADS, -1, width)
        bias = self.attention.in_proj_bias.view(3, N_HEADS, -1)
        query = of_query @ self.seed[0, 0] + bias[0]
        vectors = torch.einsum("he,hew->wh", query, of_key) / query.shape[1] ** 0.5
        logits = points @ vectors  # without the bias of keys, which adds a constant
        if mask is not None:
            logits = logits.masked_fill(~mask[..., None], -torch.inf)
        means = logits.softmax(dim=1).transpose(1, 2) @ points
        values = torch.einsum("bhw,hew->bhe", means, of_value) + bias[2]
        return self.attention.out_proj(values.flatten(1))


class SetNetwork(nn.Module):
    """Network from x (B, L, d) to ``outputs`` numbers per set.

    Training uses bfloat16 for operations per point if it is faster; predictions use float32.
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

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.half and self.training):
            pooled = self.pooling(self.of_points(x), mask)
        return self.of_sets(pooled.float())


POOLINGS = {"mean": lambda _: MeanPooling(), "max": lambda _: MaxPooling(), "attention": AttentionPooling}


@cache
def half_is_faster() -> bool:
    """Return whether this processor multiplies faster in bfloat16 than in float32, by minima of ten runs."""
    seconds = {}
    for dtype in (torch.float32, torch.bfloat16):
        a, b = torch.ones(8192, 128, dtype=dtype), torch.ones(128, 128, dtype=dtype)
        seconds[dtype] = min(timeit.repeat(lambda a=a, b=b: a @ b, number=1, repeat=10))
    return seconds[torch.bfloat16] < seconds[torch.float32]
