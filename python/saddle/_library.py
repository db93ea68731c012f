"""Loads the operators, torch.ops.saddle.*, and the torch-free core."""

import os
import pathlib

import torch

from . import _core  # noqa: F401  (found beside this file)

__version__: str = _core.version()


def _load() -> None:
    here = pathlib.Path(_core.__file__).parent
    name = "libsaddle_torch.so"
    for folder in (os.environ.get("SADDLE_LIBRARY"), here, here.parents[1]):
        if folder and (pathlib.Path(folder) / name).exists():
            torch.ops.load_library(str(pathlib.Path(folder) / name))
            return
    raise ImportError(f"{name} is neither in {here} nor in {here.parents[1]}: set SADDLE_LIBRARY to the folder that has it")


_load()
