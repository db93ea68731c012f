import pytest
import torch

import saddle

FORMS = [m["name"] for m in saddle.mechanisms() if m["tier"] == "declared"] + [
    "softmax+causal",
    "softmax+bn(beta=0.6,scale=std)",
    "attention_bn(learn=head)+bias",
    "rbf(gamma=0.5)+window(2)",
    "poly+one",
    "linear(taylor)+causal",
    "cosine+one",
]


def tensors(form, heads=4, n=6, width=4, dtype=torch.float64):
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, heads, n, width, dtype=dtype, requires_grad=True) for _ in range(3))
    named = {
        name: (torch.tensor(initial, dtype=dtype).reshape(shape) + 0.1).requires_grad_()
        for name, (shape, initial, _) in saddle.parameters(form, heads, width).items()
    }
    return q, k, v, named


@pytest.mark.parametrize("form", FORMS)
def test_gradcheck(form):
    q, k, v, named = tensors(form)

    def run(q, k, v, *values):
        return saddle.attention(q, k, v, form, **dict(zip(named, values)))

    assert torch.autograd.gradcheck(run, (q, k, v, *named.values()))


@pytest.mark.parametrize("form", ["softmax", "softmax+bn(beta=0.6)", "linear(elu1)"])
def test_gradgradcheck(form):
    q, k, v, named = tensors(form, heads=1, n=3, width=2)
    assert torch.autograd.gradgradcheck(lambda *t: saddle.attention(*t, form), (q, k, v))


def test_softmax_is_what_torch_computes():
    q, k, v, _ = tensors("softmax", dtype=torch.float32)
    expected = torch.softmax(q @ k.transpose(-1, -2) / 2, -1) @ v
    torch.testing.assert_close(saddle.attention(q, k, v), expected, rtol=0, atol=2e-6)


def test_operators_per_mechanism():
    q, k, v, _ = tensors("softmax")
    torch.testing.assert_close(
        torch.ops.saddle.attention_bn(q, k, v, "beta=0.6"), saddle.attention(q, k, v, "softmax+bn(beta=0.6)")
    )


def test_optional_outputs():
    q, k, v, _ = tensors("softmax")
    out = saddle.attention(q, k, v, weights=True, lse=True, column_sums=True)
    scores = q @ k.transpose(-1, -2) / 2
    torch.testing.assert_close(out.weights, torch.softmax(scores, -1))
    torch.testing.assert_close(out.lse, torch.logsumexp(scores, -1))
    torch.testing.assert_close(out.column_sums, out.weights.sum(-2))
    assert out.y.requires_grad and not out.weights.requires_grad
    assert saddle.attention(q, k, v, weights=True).lse is None


def test_masks_and_additive_biases():
    q, k, v, _ = tensors("softmax")
    mask = torch.ones(6, 6, dtype=torch.bool).tril()
    torch.testing.assert_close(saddle.attention(q, k, v, mask=mask), saddle.attention(q, k, v, "softmax+causal"))
    added = torch.randn(6, 6, dtype=torch.float64, requires_grad=True)
    y = saddle.attention(q, k, v, score_bias=added)
    torch.testing.assert_close(y, torch.softmax(q @ k.transpose(-1, -2) / 2 + added, -1) @ v)
    y.sum().backward()
    assert added.grad is not None


def test_dropout_follows_the_generator():
    q, k, v, _ = tensors("softmax")
    torch.manual_seed(1)
    a = saddle.attention(q, k, v, dropout=0.5)
    torch.manual_seed(1)
    assert torch.equal(a, saddle.attention(q, k, v, dropout=0.5))
    assert not torch.equal(a, saddle.attention(q, k, v, dropout=0.5))
    assert torch.equal(*(saddle.attention(q, k, v, dropout=0.5, seed=3, offset=2) for _ in range(2)))


def test_shapes_on_the_meta_device():
    q, k, v = (torch.empty(2, 4, 8, 16, device="meta") for _ in range(3))
    assert saddle.attention(q, k, v, "attention_sh").shape == (2, 4, 8, 16)
    with pytest.raises(ValueError, match="last dimensions must match"):
        saddle.attention(q, k[..., :3], v)
    with pytest.raises(ValueError):
        saddle.attention(q, k, v[:, :, :5])
    q.requires_grad_()
    y = saddle.attention(q, k, v)
    assert y.requires_grad
    y.sum().backward()
    assert q.grad.shape == q.shape


def test_errors_say_what_would_work():
    q, k, v, _ = tensors("softmax")
    with pytest.raises(ValueError, match="did you mean 'bn'"):
        saddle.attention(q, k, v, "softmax+bm")
    with pytest.raises(ValueError, match="last dimensions must match"):
        saddle.attention(q, k[..., :2], v)
    with pytest.raises(TypeError, match="no parameter"):
        saddle.attention(q, k, v, beta=torch.ones(1))
    with pytest.raises(ValueError, match="float16"):
        saddle.explain("softmax", (1, 2, 4, 4), torch.float16)


def test_bfloat16_and_threads():
    q, k, v, _ = tensors("softmax", n=40, width=32, dtype=torch.bfloat16)
    threads = torch.get_num_threads()
    results = []
    for count in (1, 2):
        torch.set_num_threads(count)
        results.append(saddle.attention(q, k, v))
    torch.set_num_threads(threads)
    assert results[0].dtype == torch.bfloat16 and torch.equal(*results)
