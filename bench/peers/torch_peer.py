"""Attention in eager PyTorch, answering requests of `saddle bench`: one line of JSON in, one out."""
import json
import os
import sys
import time

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # whatever libraries print must not look like an answer

import numpy
import torch

torch.manual_seed(0)
TYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16}


def slow_blas():
    """Debian's torch takes whatever libblas.so.3 is there; the reference one would make this a comparison with nothing."""
    torch.ones(2, 2) @ torch.ones(2, 2)
    with open("/proc/self/maps") as maps:
        text = maps.read()
    return not any(name in text for name in ("openblas", "mkl", "blis"))


def softmax(q, k, v, task, mask):
    if task["beta"]:
        mean = k.mean(-2, keepdim=True)
        q, k = q - task["beta"] * mean, k - task["beta"] * mean
    scores = (q @ k.transpose(-1, -2)) * (q.shape[-1] ** -0.5)
    if mask is not None:
        scores = scores.masked_fill(mask, float("-inf"))
    return torch.softmax(scores, -1) @ v


def linear(q, k, v, task, mask):
    q = torch.nn.functional.elu(q) + 1
    k = torch.nn.functional.elu(k) + 1
    kv = k.transpose(-1, -2) @ v
    z = 1 / (q @ k.sum(-2, keepdim=True).transpose(-1, -2) + 1e-6)
    return (q @ kv) * z


def mask_of(task, N, M):
    if not task["causal"] and not task["window"]:
        return None
    i, j = torch.arange(N)[:, None], torch.arange(M)[None, :]
    return (j > i) if task["causal"] else ((i - j).abs() > task["window"])


def module(task, B, H, N, D, dtype):
    """nn.MultiheadAttention of width H D, its four projections included."""
    training = task["pass"] == "forward+backward"
    layer = torch.nn.MultiheadAttention(H * D, H, batch_first=True).to(dtype).train(training)
    x = torch.randn(B, N, H * D).to(dtype)
    return (lambda: layer(x, x, x, need_weights=False)[0]), [x] + list(layer.parameters())


def set_up(task):
    """The function to time, and the output to compare or None."""
    B, H, N, M, D, E = task["shape"]
    if B * H * N * M > 2**31:
        raise ValueError("its N x M temporaries would take more than 8 GB")
    dtype = TYPES[task["dtype"]]
    torch.set_num_threads(task["threads"])
    if task["peer"] == "torch-mha":
        if task["attention"] != "softmax" or N != M or D != E:
            raise ValueError("nn.MultiheadAttention computes plain softmax attention only")
        forward, leaves = module(task, B, H, N, D, dtype)
    else:
        if not task["kind"]:
            raise ValueError("there is no counterpart of this attention")
        read = lambda name, n, C: torch.from_numpy(
            numpy.fromfile(os.path.join(task["folder"], name), numpy.float32).reshape(B, H, n, C)).to(dtype)
        leaves = [read("q", N, D), read("k", M, D), read("v", M, E)]
        mask = mask_of(task, N, M)
        function = linear if task["kind"] == "linear" else softmax
        forward = lambda: function(*leaves, task, mask)
    with torch.no_grad():
        y = forward()
    compare = None if task["peer"] == "torch-mha" else y
    if task["pass"] == "forward":
        def run():
            with torch.no_grad():
                forward()
        return run, compare
    for leaf in leaves:
        leaf.requires_grad_(True)
    dy = torch.randn(y.shape).to(dtype)
    return (lambda: torch.autograd.grad(forward(), leaves, dy)), compare


def best_time(run, seconds):
    best, end = float("inf"), time.perf_counter() + seconds
    while True:
        start = time.perf_counter()
        run()
        stop = time.perf_counter()
        best = min(best, stop - start)
        if stop >= end:
            return best


run = None
for line in sys.stdin:
    request = json.loads(line)
    try:
        if request["op"] == "hello":
            if slow_blas():
                raise RuntimeError("torch runs on the reference BLAS here: install libopenblas0-pthread")
            answer = {"ok": True, "version": "torch " + torch.__version__}
        elif request["op"] == "setup":
            run = None  # memory of the row before
            run, y = set_up(request)
            if y is not None:
                y.to(torch.float32).contiguous().numpy().tofile(os.path.join(request["folder"], "y"))
            run()
            answer = {"ok": True, "compare": y is not None}
        else:
            answer = {"ok": True, "seconds": best_time(run, request["seconds"])}
    except Exception as error:
        answer = {"ok": False, "reason": str(error).splitlines()[0] if str(error) else type(error).__name__}
    print(json.dumps(answer), file=answers, flush=True)
