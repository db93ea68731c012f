"""Modules."""

from __future__ import annotations

import json
from typing import Any, Optional

import torch
from torch import Tensor, nn

from . import _core
from . import _library  # noqa: F401  (the operators)
from ._held import Held


class Declared(nn.Module):
    """What modules with a declared attention share: its written form and its learnable parameters."""

    attention: str
    _names: list[str]

    def declare(self, attention: str, heads: int, key_width: int, value_width: int, **own: Any) -> None:
        """Registers the learnable parameters of `attention`, fresh, in place of those of an earlier one."""
        if not isinstance(attention, str):
            raise TypeError(f"attention is {attention!r}, expected a written form such as 'softmax+bn(beta=0.6)'; dropout= goes by name")
        form = _core.canonical(attention)
        declared = _core.parameters(form, heads, key_width, value_width)
        for name in getattr(self, "_names", []):
            delattr(self, name)
        self.attention, self._names = form, []
        for name, shape, initial, learnable in declared:
            if learnable:
                self.register_parameter(name, nn.Parameter(torch.tensor(initial).reshape(shape).to(**own)))
                self._names.append(name)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, heads: int, dropout: float, **more: Any) -> tuple:
        """torch.ops.saddle.multihead_attention with what is declared; dropout only while training."""
        dropout = dropout if self.training else 0.0
        arguments = dict(
            dropout=dropout, seed=int(torch.randint(2**62, (1,))) if dropout > 0 else 0,
            parameters=[getattr(self, name) for name in self._names] or None, **more,
        )
        if arguments.pop("weights", False):
            return torch.ops.saddle.multihead_attention(query, key, value, self.attention, heads, weights=True, **arguments)
        # One tensor and no optional ones: torch.jit.trace can record it.
        return torch.ops.saddle.multihead_output(query, key, value, self.attention, heads, **arguments), None


class MultiheadAttention(Declared):
    """torch.nn.MultiheadAttention with any declared attention inside, e.g. attention="softmax+bn(beta=0.6)".

    Weights have torch's names, so a state_dict of torch.nn.MultiheadAttention loads. Learnable parameters of the
    attention (beta, kernel, bias) are parameters of this module. Returned attention weights carry no gradient and are
    those before dropout. key_width and value_width: columns of a head's keys and values, if not embed_dim / num_heads.
    """

    # What torch.nn.TransformerEncoderLayer reads to decide on a path of its own, which would not come here.
    _qkv_same_embed_dim = False

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        attention: str = "softmax",
        dropout: float = 0.0,
        bias: bool = True,
        kdim: Optional[int] = None,
        vdim: Optional[int] = None,
        batch_first: bool = False,
        key_width: Optional[int] = None,
        value_width: Optional[int] = None,
        device: Optional[torch.device] = None,
        dtype: Optional[torch.dtype] = None,
    ) -> None:
        super().__init__()
        if embed_dim < 1 or num_heads < 1 or (key_width is None and embed_dim % num_heads):
            raise ValueError(f"embed_dim {embed_dim} cannot be cut into {num_heads} heads; give key_width or a multiple")
        self.embed_dim, self.num_heads, self.batch_first, self.dropout = embed_dim, num_heads, batch_first, dropout
        self.key_width = self.head_dim = key_width or embed_dim // num_heads
        self.value_width = value_width or self.key_width
        keys, values = num_heads * self.key_width, num_heads * self.value_width
        own = dict(device=device, dtype=dtype)
        if (kdim or embed_dim) == embed_dim and (vdim or embed_dim) == embed_dim:
            self.in_proj_weight = nn.Parameter(torch.empty(2 * keys + values, embed_dim, **own))
            for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
                self.register_parameter(name, None)
        else:
            self.register_parameter("in_proj_weight", None)
            self.q_proj_weight = nn.Parameter(torch.empty(keys, embed_dim, **own))
            self.k_proj_weight = nn.Parameter(torch.empty(keys, kdim or embed_dim, **own))
            self.v_proj_weight = nn.Parameter(torch.empty(values, vdim or embed_dim, **own))
        self.in_proj_bias = nn.Parameter(torch.zeros(2 * keys + values, **own)) if bias else None
        self.out_proj = nn.Linear(values, embed_dim, bias=bias, **own)
        own["dtype"] = own["dtype"] or torch.get_default_dtype()
        self.declare(attention, num_heads, self.key_width, self.value_width, **own)
        self._reset()

    def _reset(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                nn.init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            nn.init.zeros_(self.out_proj.bias)

    def extra_repr(self) -> str:
        return f"{self.embed_dim}, {self.num_heads}, attention={self.attention!r}, dropout={self.dropout}"

    def forward(
        self,
        query: Tensor,
        key: Optional[Tensor] = None,
        value: Optional[Tensor] = None,
        key_padding_mask: Optional[Tensor] = None,
        need_weights: bool = True,
        attn_mask: Optional[Tensor] = None,
        average_attn_weights: bool = True,
    ) -> tuple[Tensor, Optional[Tensor]]:
        """As torch.nn.MultiheadAttention.forward; key and value default to query."""
        key = query if key is None else key
        value = key if value is None else value
        batched = query.dim() == 3
        tensors = [query, key, value]
        if not batched:
            moved = [x.unsqueeze(0) for x in tensors]
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        else:
            moved = tensors if self.batch_first else [x.transpose(0, 1) for x in tensors]
        if key is query:  # the operator sees one tensor, and projects once
            moved[1] = moved[0]
        if value is key:
            moved[2] = moved[1]
        y, weights = self.attend(
            *moved,
            self.num_heads,
            self.dropout,
            in_proj_weight=self.in_proj_weight,
            in_proj_bias=self.in_proj_bias,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            out_proj_weight=self.out_proj.weight,
            out_proj_bias=self.out_proj.bias,
            key_padding_mask=key_padding_mask,
            attn_mask=attn_mask,
            weights=need_weights,
        )
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        if not batched:
            return y.squeeze(0), None if weights is None else weights.squeeze(0)
        return y if self.batch_first else y.transpose(0, 1), weights


class SelfAttention(Held):
    """Tokens (B,N,width) to tokens, by a declared attention or by a mechanism of the layer level: attention="cat".

    tokens: how many there are at most, which some mechanisms must know; grid: rows and columns of an image's tokens,
    prefix: tokens before them; layer: the number of the layer in its model; dropout: of attention weights.
    """

    def __init__(self, width: int, heads: int, attention: str = "softmax", dropout: float = 0.0, bias: bool = True,
                 tokens: int = 0, grid: Optional[tuple[int, int]] = None, prefix: int = 0, layer: int = 0) -> None:
        rows, columns = grid or (0, 0)
        super().__init__(torch.classes.saddle.SelfAttention(json.dumps(dict(
            width=width, heads=heads, attention=attention, dropout=dropout, bias=bias, tokens=tokens, rows=rows,
            columns=columns, prefix=prefix, layer=layer))))

    @classmethod
    def _from_description(cls, description: str) -> SelfAttention:
        given = json.loads(description)
        grid = (given.pop("rows"), given.pop("columns"))
        return cls(**given, grid=grid)

    def forward(self, x: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        """x (B,N,width), mask (B,N): true where a token exists."""
        return self._run(x, mask)

    def extra_repr(self) -> str:
        return self.description
