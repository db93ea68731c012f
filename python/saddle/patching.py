"""Other attentions in models that exist."""

from __future__ import annotations

import copy
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
    return new.train(old.training)


def _from_ours(old: MultiheadAttention, attention: str) -> MultiheadAttention:
    new = copy.copy(old)
    for held in ("_parameters", "_modules", "_names"):  # what the copy would share
        setattr(new, held, copy.copy(getattr(old, held)))
    weight = old.out_proj.weight
    new.declare(attention, old.num_heads, old.key_width, old.value_width, device=weight.device, dtype=weight.dtype)
    return new


def _replacement(module: nn.Module, attention: str) -> Optional[nn.Module]:
    """The same attention module with another attention and the same weights; None if it is no attention."""
    if isinstance(module, MultiheadAttention):
        return _from_ours(module, attention)
    if isinstance(module, nn.MultiheadAttention):
        return _from_torch(module, attention)
    if isinstance(getattr(module, "qkv", None), nn.Linear) and hasattr(module, "proj") and hasattr(module, "num_heads"):
        return FusedAttention(module, attention)
    return None


def patch(model: nn.Module, attention: str) -> nn.Module:
    """Puts `attention` into every attention of a model, keeping weights; changes and returns the model.

    Known are torch.nn.MultiheadAttention (and so nn.TransformerEncoder and its like) and attentions shaped like
    those of timm's vision transformers: submodules `qkv` and `proj`, and `num_heads`. A model that is such an attention
    itself is not changed: its replacement is returned. If one of them cannot be replaced, none is.
    """
    replacements: dict[nn.Module, nn.Module] = {}
    places: list[tuple[nn.Module, str, nn.Module]] = []
    seen: set[nn.Module] = set()

    def look_into(parent: nn.Module) -> None:
        if parent in seen:
            return
        seen.add(parent)
        for name, child in parent._modules.items():  # named_children() leaves out what is there twice
            if child is None:
                continue
            if child not in replacements and (new := _replacement(child, attention)) is not None:
                replacements[child] = new
            if child in replacements:
                places.append((parent, name, child))
            else:
                look_into(child)

    with torch.no_grad():
        if (whole := _replacement(model, attention)) is not None:
            return whole
        look_into(model)
    if not replacements:
        raise ValueError(
            f"{type(model).__name__} has no attention that can be replaced: expected torch.nn.MultiheadAttention, or "
            "modules with qkv, proj and num_heads"
        )
    for parent, name, old in places:
        setattr(parent, name, replacements[old])
    return model
