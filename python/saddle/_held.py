"""Modules of the C++ library as ordinary modules of Python."""

from __future__ import annotations

from typing import Any, Optional, Sequence

from torch import Tensor, nn


class Part(nn.Module):
    """Shows a part of a module of the C++ library, which owns its tensors and does the work: a tensor or submodule that
    was put in its place, or a hook, would have no effect, so that is refused."""

    def _refuse(self, name: str) -> None:
        if any(name in self.__dict__.get(kind, ()) for kind in ("_parameters", "_buffers", "_modules")):
            raise AttributeError(
                f"'{name}' belongs to the C++ module, which would go on with the old one: write into its tensors "
                "(.data.copy_, load_state_dict), or make the module anew with other options (such as classes=)"
            )

    def __setattr__(self, name: str, value: Any) -> None:
        self._refuse(name)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        self._refuse(name)
        super().__delattr__(name)


def _no_hooks(self: nn.Module, *given: Any, **named: Any) -> Any:
    raise NotImplementedError("this part computes nothing in Python, so its hooks would never run; see saddle.analysis")


class Inner(Part):
    """A submodule."""

    register_forward_hook = register_forward_pre_hook = register_full_backward_hook = register_backward_hook = _no_hooks


class Held(Part):
    """Holds a module of the C++ library: parameters, state_dict, deepcopy, .to(dtype), optimisers.

    `description` is the text that makes the same module again. `extra_loss` is what mechanisms of the layer level add to
    the loss of a training step (or None), as of the last forward pass while training: add it to yours.
    """

    description: str
    extra_loss: Optional[Tensor]

    def __init__(self, held: Any) -> None:
        super().__init__()
        self._held = held
        self.description = held.describe()
        self.extra_loss = None
        for name, tensor in held.parameters().items():
            tensor.__class__ = nn.Parameter  # the very tensor of the C++ module, gradient and all
            self._place(name).register_parameter(name.rpartition(".")[2], tensor)
        for name, tensor in held.buffers().items():
            self._place(name).register_buffer(name.rpartition(".")[2], tensor)

    def _place(self, name: str) -> nn.Module:
        module: nn.Module = self
        for part in name.split(".")[:-1]:
            if part not in module._modules:
                module.add_module(part, Inner())
            module = module._modules[part]
        return module

    def _run(self, *inputs: Optional[Tensor]) -> Tensor:
        y, self.extra_loss = self._held.forward(*inputs)
        return y

    def train(self, mode: bool = True) -> Held:
        self._held.train(mode)
        return super().train(mode)

    def _apply(self, fn: Any) -> Held:
        super()._apply(fn)
        for name, tensor in self._held.buffers().items():  # torch puts new tensors in place of buffers
            buffers, leaf = self._place(name)._buffers, name.rpartition(".")[2]
            tensor.data, buffers[leaf] = buffers[leaf], tensor
        return self

    @classmethod
    def _from_description(cls, description: str) -> Held:
        raise NotImplementedError

    def __deepcopy__(self, memo: dict) -> Held:
        twin = self._from_description(self.description)
        memo[id(self)] = twin
        for mine, theirs in zip([*self.parameters(), *self.buffers()], [*twin.parameters(), *twin.buffers()]):
            theirs.data = mine.detach().clone()
            theirs.requires_grad_(mine.requires_grad)
        return twin.train(self.training)

    def __reduce__(self) -> Any:
        state = {k: v.detach().clone() for k, v in self.state_dict().items()}
        frozen = [name for name, tensor in self.named_parameters() if not tensor.requires_grad]
        return _remade, (type(self), self.description, state, self.training, frozen)


def _remade(kind: type, description: str, state: dict, training: bool, frozen: Sequence[str] = ()) -> Held:
    module = kind._from_description(description)
    for name, tensor in module.state_dict(keep_vars=True).items():
        tensor.data = state[name]
        if name in frozen:
            tensor.requires_grad_(False)
    return module.train(training)
