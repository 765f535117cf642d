"""Use a custom divergence: any symmetric kappa(x, y), homogeneous of degree one, with a positive spectral measure.

This example is the member beta = 2 of the family of Österreicher and Vajda (2003), sqrt(x^2 + y^2) - (x + y) / sqrt 2.
The library computes its spectral measure, and raises an error if kappa is not a squared distance.
"""

import numpy as np

import dkdist as dk


def kappa(x, y):
    return np.sqrt(x**2 + y**2) - (x + y) / np.sqrt(2)


# Sets are samples of Beta(a, b). Their densities are known, so quadrature gives the exact divergence.
rng = np.random.default_rng(0)
parameters = [(2, 5), (5, 2), (3, 3)]
sets = [rng.beta(a, b, size=(20_000, 1)) for a, b in parameters]
A = dk.DivergenceEmbedding(kappa, n_basis=20, bandwidth=0.04, domain="unit").fit_transform(sets)

x = (np.arange(10_000) + 0.5) / 10_000
exact = [30 * x * (1 - x) ** 4, 30 * x**4 * (1 - x), 30 * x**2 * (1 - x) ** 2]
for i, j in [(0, 1), (0, 2), (1, 2)]:
    estimate = ((A[i] - A[j]) ** 2).sum()
    expected = kappa(exact[i], exact[j]).mean()
    print(f"Beta{parameters[i]} and Beta{parameters[j]}: {estimate:.4f}, exact {expected:.4f}")

try:
    dk.DivergenceEmbedding(lambda x, y: (x - y) ** 4 / (x + y) ** 3).fit(sets)
except ValueError as error:
    print(f"refused: {error}")
