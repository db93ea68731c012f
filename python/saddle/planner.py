"""How deep and how wide a transformer should be."""

from __future__ import annotations

import json
import os
from typing import Any, Optional, Union

from . import _core

Amount = Union[int, float, str]


def _amount(value: Optional[Amount]) -> str:
    return "" if value is None else value if isinstance(value, str) else repr(float(value))


def plan(
    params: Optional[Amount] = None, *, flops: Optional[Amount] = None, tokens: Optional[Amount] = None,
    depth: Optional[int] = None, width: Optional[int] = None, heads: Optional[int] = None,
    config: Union[None, str, "os.PathLike[str]"] = None, multiple: int = 64, band: float = 1.0,
) -> dict[str, Any]:
    """What `saddle plan` says, as a dict: recommended, given, shapes, theory, notes, params, tokens, flops, model.

    params ("50M" or a number) or flops with tokens say how large the model is; depth and width, or the config of a model (of
    saddle, or a Hugging Face config.json), say which one is asked about.

    >>> import saddle
    >>> best = saddle.plan("50M")["recommended"]
    >>> best["depth"], best["width"]
    (20, 448)
    """
    try:
        text = _core.plan(_amount(params), _amount(flops), _amount(tokens), depth, width, heads,
                          "" if config is None else os.fspath(config), multiple, band)
    except ValueError as error:  # messages are those of the command line
        raise ValueError(str(error).replace("--", "")) from None
    return json.loads(text)
