"""python3 -m saddle doctor"""

from __future__ import annotations

import argparse
import sys

import torch

from . import __version__, _core, attention, derive


def doctor() -> int:
    """Says what is installed and whether it computes correctly."""
    print(f"saddle {__version__}, torch {torch.__version__}, {_core.isa()} in use, {torch.get_num_threads()} threads")
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 33, 8, dtype=torch.float64, requires_grad=True) for _ in range(3))
    expected = torch.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1) @ v
    y = attention(q, k, v, "softmax")
    pairs = [(y, expected)]
    dy = torch.randn_like(y)
    pairs += zip(torch.autograd.grad(y, (q, k, v), dy), torch.autograd.grad(expected, (q, k, v), dy))
    error = max((a - b).abs().max().item() for a, b in pairs)
    holds = derive("softmax+bn(beta=0.6)", "json")["certificate"]["holds"]
    print(f"softmax against torch, with gradients: {error:.1e}; certificate of softmax+bn: {'holds' if holds else 'FAILS'}")
    good = error < 1e-12 and holds
    print("all is well" if good else "something is wrong")
    return 0 if good else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m saddle")
    parser.add_argument("command", choices=["doctor"])
    parser.parse_args()
    return doctor()


if __name__ == "__main__":
    sys.exit(main())
