"""Accuracy of SGD with averaged replicas ("lanes"): held-out log loss by replicas, epochs and averaging interval.

    python benchmarks/lanes.py [--quick] [--output lanes.json]

Two classes of mixtures (200 points in the plane, Jensen-Shannon, D = 5000), 112 blocks of 2,048 sets for training, 16
for testing; a batch is a block. The replicas are averaged after 4, 8 or 16 batches, at least MIN_SYNCS_PER_EPOCH times
per epoch.
"""

from __future__ import annotations

import tempfile
from typing import Any
from unittest.mock import patch

from common import options, start_report, write
from sklearn.metrics import accuracy_score, log_loss
from speed import pipeline, write_store

import dkdist as dk
from dkdist.linear import epochs as sgd_epochs

BLOCK, BATCHES_PER_SYNC = 2048, (4, 8, 16)


def main() -> None:
    args = options(__doc__).parse_args()
    train, test = (4, 1) if args.quick else (112, 16)
    figures, rows = start_report(), list[dict[str, Any]]()
    with tempfile.TemporaryDirectory() as folder:
        y = write_store(f"{folder}/sets.zarr", (train + test) * BLOCK)
        sets = dk.open_sets(f"{folder}/sets.zarr", block_sets=BLOCK)
        embedding, features, _ = (step for _, step in pipeline(1).steps)
        A = embedding.fit(sets).transform(sets)
        Z, n = features.fit(A).transform(A), train * BLOCK
        for epochs in (2, 5):
            for lanes in (1, 2, 4, 8):
                lengths = {
                    min(max_batches, max(1, train // lanes // sgd_epochs.MIN_SYNCS_PER_EPOCH))
                    for max_batches in BATCHES_PER_SYNC
                }
                for length in sorted(lengths) if lanes > 1 else (1,):
                    with patch.object(sgd_epochs, "MAX_ROWS_PER_SYNC", length * BLOCK):
                        model = dk.IncrementalSGDClassifier(n_epochs=epochs, n_lanes=lanes, random_state=0)
                        p = model.fit(Z[:n], y[:n]).predict_proba(Z[n:])
                    row = {"epochs": epochs, "lanes": lanes, "round": length, "log_loss": log_loss(y[n:], p)}
                    row["accuracy"] = accuracy_score(y[n:], p.argmax(axis=1))
                    rows.append(row)
                    interval = f", averaged every {length} batches" if lanes > 1 else ""
                    print(f"{epochs} epochs, lanes {lanes}{interval}: log loss {row['log_loss']:.4f}, "
                          f"accuracy {row['accuracy']:.4f}", flush=True)  # fmt: skip
    figures["rows"] = rows
    write(args.output, figures)


if __name__ == "__main__":
    main()
