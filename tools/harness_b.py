"""Harness B, softmax attention under the paper protocol, in plain torch and without saddle: a second opinion on its figures.

usage: harness_b.py FOLDER [--width 512] [--epochs 100] [--seed 0] [--threads 1]

FOLDER holds <name>_TRAIN.ts and <name>_TEST.ts, plain or as .gz. Prints epoch, training loss, test accuracy and the best so far.
"""
import argparse
import gzip
import math
import pathlib
import sys

import numpy
import torch
from torch import nn
from torch.nn import functional


def read(folder, split):
    """Series [steps, dims] and their labels."""
    for path in sorted(pathlib.Path(folder).glob(f"*_{split}.ts*")):
        lines = (gzip.open if path.suffix == ".gz" else open)(path, "rt").read().splitlines()
        start = next(i for i, line in enumerate(lines) if line.lower().startswith("@data")) + 1
        rows = [line.split(":") for line in lines[start:] if line.strip()]
        return [numpy.array([[float(x) for x in c.split(",")] for c in row[:-1]]).T for row in rows], [row[-1] for row in rows]
    sys.exit(f"{folder}: there is no *_{split}.ts or *_{split}.ts.gz")


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        q, k, v = (map(x).unflatten(2, (self.heads, -1)).transpose(1, 2) for map in (self.q, self.k, self.v))
        weights = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(q.shape[3]), 3)
        return self.out((functional.dropout(weights, 0.1, self.training) @ v).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention = Attention(width, 8)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2, self.drop = nn.LayerNorm(width), nn.LayerNorm(width), nn.Dropout(0.1)

    def forward(self, x):
        x = self.norm1(x + self.drop(self.attention(x)))
        return self.norm2(x + self.drop(self.down(self.drop(functional.gelu(self.up(x))))))


class Model(nn.Module):
    def __init__(self, dims, steps, classes, width):
        super().__init__()
        self.scale = math.sqrt(width)
        self.project, self.head = nn.Linear(dims, width), nn.Linear(steps * width, classes)
        self.positions = nn.Parameter(torch.empty(1, steps, width).uniform_(-0.02, 0.02))
        self.layers, self.norm, self.drop = nn.Sequential(Layer(width), Layer(width)), nn.LayerNorm(width), nn.Dropout(0.1)

    def forward(self, x, mask):
        x = self.norm(self.layers(self.drop(self.project(x) * self.scale + self.positions)))
        return self.head((self.drop(functional.gelu(x)) * mask.unsqueeze(2)).flatten(1))


class RAdam(torch.optim.Optimizer):
    """With a plain momentum step while the variance is not known, and eps beside the uncorrected root."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})
        self.t = 0

    @torch.no_grad()
    def step(self):
        self.t += 1
        b1, b2, t = 0.9, 0.999, self.t
        most = 2 / (1 - b2) - 1
        now = most - 2 * t * b2**t / (1 - b2**t)
        for group in self.param_groups:
            step = group["lr"] / (1 - b1**t)
            for p in group["params"]:
                m, u = self.state[p].setdefault("m", torch.zeros_like(p)), self.state[p].setdefault("u", torch.zeros_like(p))
                m.mul_(b1).add_(p.grad, alpha=1 - b1)
                u.mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                if now < 5:
                    p.sub_(step * m)
                    continue
                rectified = math.sqrt((1 - b2**t) * (now - 4) / (most - 4) * (now - 2) / now * most / (most - 2))
                p.addcdiv_(m, u.sqrt() + 1e-8, value=-step * rectified)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    for name, default in (("width", 512), ("epochs", 100), ("seed", 0), ("threads", 1)):
        parser.add_argument("--" + name, type=int, default=default)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)

    train, test = read(options.folder, "TRAIN"), read(options.folder, "TEST")
    seen = numpy.concatenate(train[0])
    mean, deviation = seen.mean(0), seen.std(0, ddof=1) + 2.2e-16
    steps, classes = max(len(series) for series in train[0]), sorted(set(train[1]))

    def packed(series, labels):
        x, mask = torch.zeros(len(series), steps, seen.shape[1]), torch.zeros(len(series), steps)
        for i, one in enumerate(series):
            scaled = torch.tensor((one[:steps] - mean) / deviation)
            x[i, :len(scaled)], mask[i, :len(scaled)] = scaled, 1
        return x, mask, torch.tensor([classes.index(label) for label in labels])

    x, mask, y = packed(*train)
    test_x, test_mask, test_y = packed(*test)
    model = Model(seen.shape[1], steps, len(classes), options.width)
    optimizer, best = RAdam(model.parameters(), 1e-3), 0
    for epoch in range(1, options.epochs + 1):
        model.train()
        total = 0
        for rows in torch.randperm(len(x)).split(16):
            loss = functional.cross_entropy(model(x[rows], mask[rows]), y[rows])
            model.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 4.0)
            optimizer.step()
            total += loss.item() * len(rows)
        if epoch % 2 == 0 or epoch in (1, options.epochs):
            model.eval()
            with torch.no_grad():
                right = sum((model(a, b).argmax(1) == c).sum().item()
                            for a, b, c in zip(test_x.split(32), test_mask.split(32), test_y.split(32)))
            best = max(best, right / len(test_y))
            print(f"{epoch} {total / len(x):.4f} {100 * right / len(test_y):.1f} {100 * best:.1f}", flush=True)


main()
