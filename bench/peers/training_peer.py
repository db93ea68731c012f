"""Training steps of a small transformer in eager PyTorch, answering requests of `saddle bench`: one line of JSON in, one out."""
import ctypes
import json
import math
import os
import sys
import time

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # whatever libraries print must not look like an answer

import numpy
import torch
from torch import nn
from torch.nn import functional

CLASSES = 10
MOST_BYTES = 16e9


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def attention(self, x):
        B, N, width = x.shape
        q, k, v = self.qkv(x).view(B, N, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        weights = torch.softmax((q @ k.transpose(-1, -2)) * (width // self.heads) ** -0.5, -1)
        return self.proj((weights @ v).transpose(1, 2).reshape(B, N, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.fc2(functional.gelu(self.fc1(self.norm2(x))))


class Model(nn.Module):
    def __init__(self, width, heads, layers):
        super().__init__()
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x):
        return self.head(self.norm(self.blocks(x)).mean(1))


class Training:
    """A model, its optimiser and one batch."""

    def __init__(self, width, heads, layers, bf16, x, labels, parameters=None):
        self.bf16, self.x, self.labels = bf16, x, labels
        self.model = Model(width, heads, layers)
        if parameters is not None:
            nn.utils.vector_to_parameters(parameters, self.model.parameters())
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=1e-4)

    def step(self):
        self.optimiser.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.bf16):
            loss = functional.cross_entropy(self.model(self.x).float(), self.labels)
        loss.backward()
        self.optimiser.step()
        return loss.item()

    def gradients(self):
        return nn.utils.parameters_to_vector([p.grad for p in self.model.parameters()])


def slow_blas():
    """Debian's torch takes whatever libblas.so.3 is there; the reference one would make this a comparison with nothing."""
    with open("/proc/self/maps") as maps:
        text = maps.read()
    return not any(name in text for name in ("openblas", "mkl", "blis"))


def status_bytes(name):
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(name + ":"):
                return 1024 * int(line.split()[1])


def extra_memory(run):
    """The highest resident memory during the run beyond what was resident before; -1 where it cannot be known."""
    ctypes.CDLL(None).malloc_trim(0)
    try:
        with open("/proc/self/clear_refs", "w") as peak:
            peak.write("5")
    except OSError:
        run()
        return -1
    before = status_bytes("VmRSS")
    run()
    return max(0, status_bytes("VmHWM") - before)


def set_up(task):
    B, N, width, heads, layers = task["shape"]
    bf16 = task["dtype"] == "bf16"
    # Scores, what autograd keeps of them and gradients: about four N x N tensors per head and layer.
    if 4 * layers * B * heads * N * N * (2 if bf16 else 4) > MOST_BYTES:
        raise ValueError("its N x N temporaries would take more than %.0f GB" % (MOST_BYTES / 1e9))
    torch.set_num_threads(task["threads"])
    # What libraries touch at their first use is none of the step's memory.
    Training(width, heads, 1, bf16, torch.zeros(1, 2, width), torch.zeros(1, dtype=torch.int64)).step()
    if slow_blas():
        raise RuntimeError("torch runs on the reference BLAS here: install libopenblas0-pthread")
    read = lambda name, kind: torch.from_numpy(numpy.fromfile(os.path.join(task["folder"], name), kind))
    x, labels = read("x", numpy.float32).view(B, N, width), read("labels", numpy.int64)
    training = Training(width, heads, layers, bf16, x, labels, read("parameters", numpy.float32))
    losses = []
    memory = extra_memory(lambda: losses.append(training.step()))
    expected = training.gradients()
    difference = (read("gradients", numpy.float32) - expected).abs().max() / expected.abs().max()
    found = read("losses", numpy.float64)
    losses += [training.step() for _ in found[1:]]
    losses = torch.tensor(losses, dtype=torch.float64)
    disagreement = torch.maximum(difference, ((found - losses) / losses).abs().max()).item()
    return training, {"ok": True, "memory": memory, "disagreement": disagreement if math.isfinite(disagreement) else None}


def best_time(run, seconds):
    best, end = float("inf"), time.perf_counter() + seconds
    while True:
        start = time.perf_counter()
        run()
        stop = time.perf_counter()
        best = min(best, stop - start)
        if stop >= end:
            return best


training = None
for line in sys.stdin:
    request = json.loads(line)
    try:
        if request["op"] == "setup":
            training = None  # memory of the row before
            training, answer = set_up(request)
        else:
            answer = {"ok": True, "seconds": best_time(training.step, request["seconds"])}
    except Exception as error:
        answer = {"ok": False, "reason": str(error).splitlines()[0] if str(error) else type(error).__name__}
    print(json.dumps(answer), file=answers, flush=True)
