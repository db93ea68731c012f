"""Attention derived from its primal problem, fast on CPUs, forward and backward.

>>> import torch, saddle
>>> q, k, v = (torch.randn(2, 4, 128, 32, requires_grad=True) for _ in range(3))
>>> y = saddle.attention(q, k, v, "softmax+bn(beta=0.6)")
>>> y.sum().backward()
"""

from . import analysis, models, nn, svr
from ._library import __version__
from .functional import AttentionOutputs, attention, derive, explain, mechanisms, parameters
from .patching import patch
from .planner import plan

__all__ = ["AttentionOutputs", "analysis", "attention", "derive", "explain", "mechanisms", "models", "nn", "parameters",
           "patch", "plan", "svr", "__version__"]
