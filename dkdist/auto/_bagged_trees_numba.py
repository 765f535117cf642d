"""Compiled functions of bagged regression trees, stored as flat arrays of nodes.

Node i tests row[feature[i]] <= threshold[i], with float32 rows and float64 thresholds as in scikit-learn, and continues
at left[i] or right[i]; feature[i] = -1 marks a leaf. The prediction of node i is
value[value_rows[i]], with value (k, t).
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.compilation import jit


@jit()
def add_values(rows, roots, feature, threshold, left, right, value, value_rows, out):  # type: ignore[no-untyped-def]
    """Add the predictions of all trees to out (n, t), in the order of the trees."""
    for root in roots:
        for i in range(len(rows)):
            node = root
            while feature[node] >= 0:
                node = left[node] if rows[i, feature[node]] <= threshold[node] else right[node]
            for k in range(out.shape[1]):
                out[i, k] += value[value_rows[node], k]


@jit()
def add_jumps(start, row, roots, feature, threshold, left, right, value, value_rows, out):  # type: ignore[no-untyped-def]
    """Add the jumps of all trees on the straight path from start to row (m,) to out (m, t), by feature.

    Each tree is traversed with the part [first, last] of the path that is inside the node. If this part crosses the
    threshold of the node, its second half is pushed on a stack; the jump from the last leaf of the first half to the
    first leaf of the second half is attributed to the node's feature. Both ends of the path always reach their leaf.
    """
    nodes, features = np.empty(len(feature), np.int64), np.empty(len(feature), np.int64)
    firsts, lasts = np.empty(len(feature)), np.empty(len(feature))
    for root in roots:
        nodes[0], features[0], firsts[0], lasts[0] = root, -1, 0.0, 1.0
        depth, previous = 1, -1
        while depth > 0:
            depth -= 1
            node, crossed_feature, first, last = nodes[depth], features[depth], firsts[depth], lasts[depth]
            while feature[node] >= 0:
                j = feature[node]
                start_is_left, end_is_left = start[j] <= threshold[node], row[j] <= threshold[node]
                near_child = left[node] if start_is_left else right[node]
                if start_is_left == end_is_left:
                    node = near_child
                    continue
                far_child = right[node] if start_is_left else left[node]
                s = (threshold[node] - start[j]) / (np.float64(row[j]) - start[j])
                if not (s > first or first == 0.0):
                    node = far_child
                    continue
                node = near_child
                if s < last or last == 1.0:
                    nodes[depth], features[depth], firsts[depth], lasts[depth] = far_child, j, s, last
                    depth += 1
                    last = s
            if crossed_feature >= 0:
                for k in range(out.shape[1]):
                    out[crossed_feature, k] += value[value_rows[node], k] - value[value_rows[previous], k]
            previous = node
