"""Files of weights: what their headers say about the model."""

from __future__ import annotations

import json
import os
import struct
from typing import Any, Optional


def weights_of(path: str) -> str:
    """The file that was chosen in the folder of a run; any other path as it is."""
    if not os.path.isdir(path):
        return path
    chosen = os.path.join(path, "checkpoints", "best.safetensors")
    if not os.path.exists(chosen):
        raise ValueError(f"{path} is not the folder of a run: it has no checkpoints/best.safetensors")
    return chosen


def _metadata(path: str) -> dict[str, Any]:
    with open(path, "rb") as file:
        size = file.read(8)
        length = struct.unpack("<Q", size)[0] if len(size) == 8 else 0
        if not 0 < length <= os.path.getsize(path) - 8:
            raise ValueError(f"{path} is not a safetensors file")
        try:
            return json.loads(file.read(length)).get("__metadata__", {})
        except (AttributeError, ValueError):
            raise ValueError(f"{path} is not a safetensors file: its header is broken") from None


def description_of(path: str) -> Optional[tuple[str, str]]:
    """Of a file of Model.save(), saddle train or saddle prune: the JSON that makes its model, and how names of weights
    begin. None: it has weights only."""
    metadata = _metadata(path)
    if "saddle.model" in metadata:
        return metadata["saddle.model"], ""
    state = json.loads(metadata.get("saddle", "{}"))
    if "model" not in state:
        return None
    return json.dumps(state["model"]), "model." if "table" in state else ""  # beside the rows of the table
