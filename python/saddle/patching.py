"""Other attentions in models that exist."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor, nn

from .nn import Declared, MultiheadAttention


class FusedAttention(Declared):
    """An attention shaped like timm's, x (B,N,C) -> (B,N,C), with the submodules of the one it replaces."""

    def __init__(self, old: nn.Module, attention: str) -> None:
        super().__init__()
        self.num_heads, self.qkv, self.proj = old.num_heads, old.qkv, old.proj
        self.attn_drop = getattr(old, "attn_drop", nn.Identity())
        self.proj_drop = getattr(old, "proj_drop", nn.Identity())
        width = old.proj.in_features // old.num_heads
        self.declare(attention, old.num_heads, width, width, device=old.qkv.weight.device, dtype=old.qkv.weight.dtype)
        self.train(old.training)

    def extra_repr(self) -> str:
        return f"attention={self.attention!r}"

    def forward(self, x: Tensor, *ignored: Any, **also_ignored: Any) -> Tensor:
        if any(value is not None for value in (*ignored, *also_ignored.values())):
            raise NotImplementedError("a patched attention takes x only: pass no masks")
        y, _ = self.attend(
            x, x, x, self.num_heads, _probability(self.attn_drop), in_proj_weight=self.qkv.weight,
            in_proj_bias=self.qkv.bias, out_proj_weight=self.proj.weight, out_proj_bias=self.proj.bias,
        )
        return self.proj_drop(y)


def _probability(dropout: Optional[nn.Module]) -> float:
    return dropout.p if isinstance(dropout, nn.Dropout) else 0.0


def _from_torch(old: nn.MultiheadAttention, attention: str) -> MultiheadAttention:
    if old.bias_k is not None or old.add_zero_attn:
        raise NotImplementedError("add_bias_kv and add_zero_attn have no counterpart")
    new = MultiheadAttention(
        old.embed_dim, old.num_heads, attention, old.dropout, old.in_proj_bias is not None, old.kdim, old.vdim,
        old.batch_first, device=old.out_proj.weight.device, dtype=old.out_proj.weight.dtype,
    )
    for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias"):
        setattr(new, name, getattr(old, name))
    new.out_proj = old.out_proj
    new.train(old.training)
    # What torch.nn.TransformerEncoderLayer reads to decide on a path of its own, which would not come here.
    new._qkv_same_embed_dim = False
    return new


def patch(model: nn.Module, attention: str) -> nn.Module:
    """Puts `attention` into every attention of a model, keeping weights; changes and returns the model.

    Known are torch.nn.MultiheadAttention (and so nn.TransformerEncoder and its like) and attentions shaped like
    those of timm's vision transformers: submodules `qkv` and `proj`, and `num_heads`.
    """
    found = 0

    def replace(parent: nn.Module) -> None:
        nonlocal found
        for name, child in parent.named_children():
            if isinstance(child, MultiheadAttention):
                weight = child.out_proj.weight
                child.declare(attention, child.num_heads, child.key_width, child.value_width, device=weight.device,
                              dtype=weight.dtype)
                found += 1
            elif isinstance(child, nn.MultiheadAttention):
                setattr(parent, name, _from_torch(child, attention))
                found += 1
            elif isinstance(getattr(child, "qkv", None), nn.Linear) and hasattr(child, "proj") and hasattr(child, "num_heads"):
                setattr(parent, name, FusedAttention(child, attention))
                found += 1
            else:
                replace(child)

    with torch.no_grad():
        replace(model)
    if not found:
        raise ValueError(
            f"{type(model).__name__} has no attention that can be replaced: expected torch.nn.MultiheadAttention, or "
            "modules with qkv, proj and num_heads"
        )
    return model
