"""Complete models: time series, token sequences, images, language. Any attention in any layer.

>>> import torch, saddle
>>> model = saddle.models.make("deit_tiny_patch16_224", attention="softmax+bn(beta=0.6)", classes=10)
>>> logits = model(torch.randn(2, 3, 224, 224))
"""

from __future__ import annotations

import json
import os
from typing import Any, Optional, Union

import torch
from torch import Tensor

from . import _library  # noqa: F401  (the operators)
from ._files import description_of, weights_of
from ._held import Held

__all__ = ["Model", "load", "make", "names", "options"]

Path = Union[str, "os.PathLike[str]"]


def names() -> list[str]:
    """What make() knows by name. deit_ and vit_ names of other sizes ("vit_base_patch32_384") are taken too."""
    return torch.ops.saddle.model_names()


def options(name: str) -> dict[str, tuple[str, str]]:
    """The options of a model: name -> (default, help)."""
    flat = torch.ops.saddle.model_options(name)
    return {flat[i]: (flat[i + 1], flat[i + 2]) for i in range(0, len(flat), 3)}


class Model(Held):
    """A model of the C++ library as an ordinary module: parameters, state_dict, deepcopy, .to(dtype), optimisers.

    Images' weights have timm's names. `description` is the JSON that makes the same model again.
    """

    def __init__(self, description: str) -> None:
        super().__init__(torch.classes.saddle.Model(description))

    @classmethod
    def _from_description(cls, description: str) -> Model:
        return cls(description)

    def forward(self, inputs: Tensor, mask: Optional[Tensor] = None, second: Optional[Tensor] = None,
                second_mask: Optional[Tensor] = None, images: Optional[Tensor] = None,
                times: Optional[Tensor] = None) -> Tensor:
        """Logits. inputs: series (B,N,dims), tokens (B,N) or images (B,C,rows,columns); mask (B,N): true where a step
        exists; second, second_mask: of pairs of documents; images (B,C,rows,columns): beside tokens; times (B,N): of
        events, in float64."""
        return self._run(inputs, mask, second, second_mask, images, times)

    def save(self, path: Path) -> None:
        """Weights and description, as safetensors; saddle.models.load() makes the model again."""
        self._held.save(os.fspath(path))

    def load(self, path: Path) -> Model:
        """Takes the weights of a safetensors file; all names must match."""
        self._held.load(os.fspath(path), "")
        return self

    def export_onnx(self, path: Path, inputs: Tensor, mask: Optional[Tensor] = None, second: Optional[Tensor] = None,
                    second_mask: Optional[Tensor] = None, images: Optional[Tensor] = None,
                    times: Optional[Tensor] = None) -> None:
        """Writes an ONNX file that takes batches of any size; the example's values do not matter."""
        self._held.export_onnx(os.fspath(path), inputs, mask, second, second_mask, images, times)

    def extra_repr(self) -> str:
        return self.description


def make(name: str, **given: Any) -> Model:
    """A fresh model, e.g. make("mvts", dims=3, max_len=93, classes=10, attention="attention_bn_sh").

    attention: one written form for all layers or a list of one for each; last_attention: of the last layer alone.
    Parameters start from torch's default generator: torch.manual_seed() first gives the same model.
    """
    return Model(json.dumps({"model": name, **given}))


def load(path: Path) -> Model:
    """The model of a file that Model.save() wrote, or of a run: its folder, or the file that `saddle train` chose or
    `saddle prune` wrote."""
    file = weights_of(os.fspath(path))
    described = description_of(file)
    if described is None:
        raise ValueError(f"{file} holds weights only; make the model first, then model.load({file!r})")
    description, prefix = described
    model = Model(description)
    model._held.load(file, prefix)
    return model
