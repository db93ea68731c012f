"""The hidden Markov chain of the paper on attention paths, drawn with its seeds: figures of the authors' own code."""

import math

import numpy as np
import pytest
import torch

import saddle

FEATURES, TOKENS, BETA = 200, 30, 10.0
WIDTH = FEATURES + TOKENS + 1
PLUS = torch.cat([torch.full((100,), math.sqrt(2), dtype=torch.float64), torch.zeros(100, dtype=torch.float64)])
MINUS = PLUS.flip(0)


def chain(count, seed, perpendicular):
    """x [count,features + positions,1 + tokens], y [count]: staying is likely in the first half, changing in the other."""
    random = torch.Generator().manual_seed(seed)
    y = torch.ones(count, dtype=torch.float64)
    y[count // 2 :] = -1
    states = torch.zeros(count, TOKENS, dtype=torch.float64)
    for sample in range(count):
        stays = 0.7 if y[sample] > 0 else 0.3
        state = bool(torch.rand(1, generator=random, dtype=torch.float64) >= 0.5)
        for token in range(TOKENS):
            if token > 0 and not torch.rand(1, generator=random, dtype=torch.float64) < stays:
                state = not state
            states[sample, token] = float(state)
    x = states[:, None, :] * PLUS[:, None] + (1 - states[:, None, :]) * MINUS[:, None]
    noise = torch.randn(count, FEATURES, TOKENS, generator=random, dtype=torch.float64)
    plane = torch.stack([(PLUS - MINUS) / (PLUS - MINUS).norm(), (PLUS + MINUS) / (PLUS + MINUS).norm()])
    inside = torch.einsum("kf,kg,ngt->nft", plane, plane, noise)
    x = x + inside + perpendicular * (noise - inside)
    x = torch.cat([torch.zeros(count, FEATURES, 1, dtype=torch.float64), x], 2)
    return torch.cat([x, torch.eye(TOKENS + 1, dtype=torch.float64).expand(count, -1, -1)], 1), y


def good_head():
    direction = (PLUS - MINUS) / ((PLUS - MINUS).norm() ** 2 / 2)
    w = torch.zeros(WIDTH, WIDTH, dtype=torch.float64)
    w[:FEATURES, :FEATURES] = torch.outer(direction, direction)
    for query in range(2, TOKENS + 1):
        w[FEATURES + query - 1, FEATURES + query] = 1
    w[FEATURES, FEATURES + 1 :] = 1.5
    return BETA * w


def uniform_head():
    w = torch.zeros(WIDTH, WIDTH, dtype=torch.float64)
    w[FEATURES:, FEATURES:] = BETA
    return w


def random_head(seed):
    random = torch.Generator().manual_seed(seed)
    draw = lambda rows, columns: torch.randn(rows, columns, generator=random, dtype=torch.float64)
    features, positions, cross = draw(FEATURES, FEATURES), draw(TOKENS + 1, TOKENS + 1), draw(WIDTH, WIDTH)
    w = cross / math.sqrt(FEATURES)
    w[:FEATURES, :FEATURES] = features / FEATURES
    w[FEATURES:, FEATURES:] = positions
    return BETA * w


def two_paths():
    return 5.0, [good_head(), torch.zeros(WIDTH, WIDTH, dtype=torch.float64)], [uniform_head()]


def four_paths():
    return 1.0, [good_head(), random_head(147)], [uniform_head(), random_head(247)]


U = {two_paths: [[2.935, -1.739], [-1.739, 1.257]],
     four_paths: [[13.426, 1.683, -4.208, -1.260], [1.683, 2.145, -0.734, -0.270], [-4.208, -0.734, 6.949, 0.513],
                  [-1.260, -0.270, 0.513, 1.819]]}
ACCURACY = {two_paths: {10: 95.7, 100: 92.5, 1000: 85.7}, four_paths: {10: 94.6, 30: 94.0, 100: 92.6, 1000: 92.8}}
LIMIT = {two_paths: 84.3, four_paths: 93.3}


@pytest.mark.parametrize("paths", [two_paths, four_paths])
def test_figures_of_the_authors_code(paths):
    perpendicular, first, second = paths()
    (x, y), (x_test, y_test) = chain(100, 27, perpendicular), chain(1000, 59, perpendicular)
    task = {"x_train": x, "y_train": y, "x_test": x_test, "w1": torch.stack(first), "w2": torch.stack(second)}
    share = lambda mean: 100 * np.mean(np.sign(mean) == y_test.numpy())
    for width, accuracy in ACCURACY[paths].items():
        found = saddle.analysis.run("attention_paths", task, temperature=0.01, width=width)["result"]
        assert share(found["mean"]) == pytest.approx(accuracy, abs=0.051)
        assert share(found["mean_gp"]) == pytest.approx(LIMIT[paths], abs=0.051)
        if width == 10:
            np.testing.assert_allclose(np.squeeze(found["u"])[: len(U[paths]), : len(U[paths])], U[paths], atol=6e-4)
