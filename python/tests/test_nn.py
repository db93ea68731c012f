import copy
import pickle

import pytest
import torch
from torch import nn

import saddle


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_state_of_torch_gives_the_same(batch_first, bias):
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(12, 3, bias=bias, batch_first=batch_first).double()
    ours = saddle.nn.MultiheadAttention(12, 3, bias=bias, batch_first=batch_first).double()
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 2, 12, dtype=torch.float64) if batch_first else torch.randn(5, 2, 12, dtype=torch.float64)
    n = x.shape[1] if batch_first else x.shape[0]
    hidden = torch.ones(n, n, dtype=torch.bool).triu(1)
    padding = torch.zeros(2, n, dtype=torch.bool)
    padding[1, -1] = True
    for masks in ({}, {"attn_mask": hidden}, {"key_padding_mask": padding}, {"attn_mask": torch.randn(n, n).double()},
                  {"key_padding_mask": torch.randn(2, n).double()}):
        for a, b in zip(ours(x, x, x, **masks), theirs(x, x, x, **masks)):
            torch.testing.assert_close(a, b)
    assert ours(x, x, x, need_weights=False)[1] is None


def test_is_an_ordinary_module():
    module = saddle.nn.MultiheadAttention(8, 2, "attention_bn_sh(learn=head)", batch_first=True)
    assert {"beta", "in_proj_weight", "out_proj.weight"} <= set(module.state_dict())
    twin = copy.deepcopy(module).double()
    x = torch.randn(2, 6, 8)
    torch.testing.assert_close(twin(x.double())[0].float(), module(x)[0])
    optimiser = torch.optim.SGD(module.parameters(), lr=0.1)
    before = module.beta.clone()
    module(x, need_weights=False)[0].pow(2).sum().backward()
    optimiser.step()
    assert not torch.equal(before, module.beta)
    assert "attention='softmax+bn(learn=head)+sh'" in repr(module)


@pytest.mark.parametrize("training", [False, True])
def test_patches_a_transformer_encoder(training):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).train(training)
    x = torch.randn(3, 7, 16)
    with torch.set_grad_enabled(training):
        before = model(x)
        names = set(model.state_dict())
        assert saddle.patch(model, "softmax") is model
        assert set(model.state_dict()) == names
        torch.testing.assert_close(model(x), before, rtol=0, atol=2e-5)
        again = saddle.patch(copy.deepcopy(model), "softmax+bn(learn=head)")
        assert "layers.0.self_attn.beta" in again.state_dict()
        assert not torch.allclose(again(x), before, atol=1e-3)


def test_patches_attention_with_fused_weights():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.num_heads, self.qkv, self.proj = 2, nn.Linear(8, 24), nn.Linear(8, 8)
            self.attn_drop, self.proj_drop = nn.Dropout(0.0), nn.Dropout(0.0)

        def forward(self, x):
            B, N, C = x.shape
            q, k, v = self.qkv(x).reshape(B, N, 3, 2, 4).permute(2, 0, 3, 1, 4)
            a = self.attn_drop((q @ k.transpose(-2, -1) / 2).softmax(-1))
            return self.proj_drop(self.proj((a @ v).transpose(1, 2).reshape(B, N, C)))

    model = nn.Sequential(Attention())
    x = torch.randn(2, 5, 8)
    before, names = model(x), set(model.state_dict())
    torch.testing.assert_close(saddle.patch(model, "softmax")(x), before, rtol=0, atol=2e-6)
    assert set(model.state_dict()) == names
    assert not torch.allclose(saddle.patch(model, "softmax+bn")(x), before, atol=1e-3)


def test_patches_shared_attentions_and_all_or_none():
    shared = nn.ModuleList([nn.MultiheadAttention(8, 2)] * 3)
    saddle.patch(shared, "softmax+bn")
    assert all(type(child) is saddle.nn.MultiheadAttention and child is shared[0] for child in shared)
    mixed = nn.ModuleList([nn.MultiheadAttention(8, 2), nn.MultiheadAttention(8, 2, add_bias_kv=True)])
    with pytest.raises(NotImplementedError):
        saddle.patch(mixed, "softmax")
    assert all(type(child) is nn.MultiheadAttention for child in mixed)
    alone = nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.randn(2, 5, 8)
    torch.testing.assert_close(saddle.patch(alone, "softmax")(x)[0], alone(x, x, x)[0], rtol=0, atol=2e-6)
    again = saddle.patch(saddle.patch(shared, "softmax+bn(learn=head)"), "softmax")
    assert not hasattr(again[0], "beta") and again[0] is again[2]


def test_stands_in_an_encoder_layer_and_can_be_traced():
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()
    layer.self_attn = saddle.nn.MultiheadAttention(16, 4, "softmax+bn", batch_first=True).eval()
    x = torch.randn(2, 7, 16)
    with torch.no_grad():
        y = layer(x)
        torch.testing.assert_close(torch.jit.trace(layer, x)(x), y)
    with pytest.raises(TypeError, match="dropout= goes by name"):
        saddle.nn.MultiheadAttention(16, 4, 0.1)


def test_patch_needs_an_attention():
    with pytest.raises(ValueError, match="no attention that can be replaced"):
        saddle.patch(nn.Sequential(nn.Linear(2, 2)), "softmax")


LAYERS = [m["name"] for m in saddle.mechanisms() if m["level"] == "layer"]


@pytest.mark.parametrize("attention", ["softmax+bn", *LAYERS])
def test_self_attention_is_an_ordinary_module(attention):
    torch.manual_seed(3)
    layer = saddle.nn.SelfAttention(16, 2, attention, tokens=64, grid=(8, 8)).eval()
    x = torch.randn(2, 64, 16)
    y = layer(x)
    assert y.shape == x.shape
    torch.testing.assert_close(copy.deepcopy(layer)(x), y, rtol=0, atol=0)
    torch.testing.assert_close(pickle.loads(pickle.dumps(layer))(x), y, rtol=0, atol=0)
    layer.train()
    target = torch.randn_like(x)
    optimiser = torch.optim.AdamW(layer.parameters(), lr=1e-2)
    losses = []
    for _ in range(10):
        optimiser.zero_grad()
        loss = (layer(x) - target).square().mean()
        total = loss if layer.extra_loss is None else loss + layer.extra_loss
        total.backward()
        optimiser.step()
        losses.append(total.item())
    assert losses[-1] < losses[0]


def test_self_attention_says_what_is_wrong():
    with pytest.raises(ValueError, match="known are|expected a kernel or a mechanism"):
        saddle.nn.SelfAttention(16, 2, "kat")
    with pytest.raises(ValueError, match="number of tokens is not"):
        saddle.nn.SelfAttention(16, 2, "cat(variant=q)")
    with pytest.raises(ValueError, match="projections of its own"):
        saddle.attention(*(torch.randn(1, 2, 4, 8) for _ in range(3)), "cat")
