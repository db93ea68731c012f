"""Attention as a function, and what can be asked about it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, Optional, Sequence, Union

import torch
from torch import Tensor

from . import _core
from . import _library  # noqa: F401  (the operators)


class AttentionOutputs(NamedTuple):
    """What `attention` gives when more than y is asked for; what was not asked for is None."""

    y: Tensor
    weights: Optional[Tensor]
    lse: Optional[Tensor]
    column_sums: Optional[Tensor]


def parameters(attention: str, heads: int, key_width: int, value_width: Optional[int] = None) -> dict[str, tuple]:
    """The parameters of a value beyond projections: name -> (shape, initial values, learnable)."""
    listed = _core.parameters(attention, heads, key_width, value_width or key_width)
    return {name: (tuple(shape), initial, learnable) for name, shape, initial, learnable in listed}


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attention: str = "softmax",
    *,
    key_mask: Optional[Tensor] = None,
    mask: Optional[Tensor] = None,
    score_bias: Optional[Tensor] = None,
    skip: Optional[Tensor] = None,
    dropout: float = 0.0,
    seed: Optional[int] = None,
    offset: int = 0,
    weights: bool = False,
    lse: bool = False,
    column_sums: bool = False,
    **named: Tensor,
) -> Union[Tensor, AttentionOutputs]:
    """Attention of q (B,H,N,D) over k (B,H,M,D) and v (B,H,M,E), by its written form.

    key_mask (B,M) is true where a key exists; mask broadcasts to (B,H,N,M) and is true where a query sees a key;
    score_bias is added to the scores of an exponential kernel (through plain torch operations, with its gradient).
    Parameters of the value are named: beta=, kernel=, bias=; absent ones keep their initial values.
    dropout drops weights; without a seed one is drawn from torch's generator.
    weights, lse, column_sums: also give these, without gradients and as before dropout, as an AttentionOutputs.
    Computes in the type of q, k and v, also under autocast.
    """
    given = None
    if named:
        known = parameters(attention, q.shape[1], q.shape[-1], v.shape[-1])
        unknown = set(named) - set(known)
        if unknown:
            raise TypeError(f"[{attention}] has no parameter {sorted(unknown)}; it has {sorted(known) or 'none'}")
        given = [
            named[name] if name in named else torch.tensor(initial, dtype=q.dtype).reshape(shape)
            for name, (shape, initial, _) in known.items()
        ]
    if dropout > 0 and seed is None:
        seed = int(torch.randint(2**62, (1,)))
    arguments: dict[str, Any] = dict(
        key_mask=key_mask, mask=mask, score_bias=score_bias, skip=skip, parameters=given, dropout=float(dropout),
        seed=seed or 0, offset=offset,
    )
    if not (weights or lse or column_sums):
        return torch.ops.saddle.attention(q, k, v, attention, **arguments)
    return AttentionOutputs(
        *torch.ops.saddle.attention_outputs(
            q, k, v, attention, **arguments, weights=weights, lse=lse, column_sums=column_sums
        )
    )


def derive(
    attention: str, format: str = "text", shape: Sequence[int] = (), seed: int = 0, certificate: bool = True
) -> Union[str, dict]:
    """How a value follows from its primal problem: text, markdown, latex or html; "json" gives a dict."""
    text = _core.derive(attention, format, list(shape), seed, certificate)
    return json.loads(text) if format == "json" else text


def explain(
    attention: str, shape: Sequence[int], dtype: torch.dtype = torch.float32, backward: bool = False
) -> str:
    """Who would compute a call of shape (B,H,N,D) or (B,H,N,M,D,E), at what cost, and who refuses and why."""
    return _core.explain(attention, list(shape), str(dtype).split(".")[-1], backward)


def mechanisms() -> list[dict[str, str]]:
    """All mechanisms: name, composition, summary, level, tier."""
    return _core.mechanisms()
