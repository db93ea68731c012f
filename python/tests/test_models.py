import copy
import json
import pathlib
import pickle
import struct
import subprocess
import sys

import pytest
import torch

import saddle

SMALL = {
    "mvts": (dict(dims=3, max_len=12, classes=4), lambda: (torch.randn(2, 12, 3), torch.ones(2, 12, dtype=torch.bool))),
    "flowformer": (dict(dims=3, max_len=12, classes=4, width=16, hidden=32, heads=2), lambda: (torch.randn(2, 12, 3),)),
    "sequence_classifier": (dict(vocab=16, max_len=20, classes=3), lambda: (torch.randint(1, 16, (2, 20)),)),
    "vision_transformer": (dict(image=32, patch=8, classes=5, depth=2), lambda: (torch.randn(2, 3, 32, 32),)),
    "language_model": (dict(vocab=16, max_len=20, width=32, heads=2, depth=2), lambda: (torch.randint(0, 16, (2, 20)),)),
}


def small(name, **more):
    options, inputs = SMALL[name]
    torch.manual_seed(1)
    return saddle.models.make(name, **options, **more), inputs()


@pytest.mark.parametrize("name", SMALL)
def test_is_an_ordinary_module(name):
    model, inputs = small(name)
    model.eval()
    y = model(*inputs)
    twin = copy.deepcopy(model)
    torch.testing.assert_close(twin(*inputs), y, rtol=0, atol=0)
    torch.testing.assert_close(pickle.loads(pickle.dumps(model))(*inputs), y, rtol=0, atol=0)
    model.train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    first = None
    for _ in range(8):
        optimiser.zero_grad()
        loss = model(*inputs).logsumexp(-1).mean()
        loss.backward()
        optimiser.step()
        first = loss.item() if first is None else first
    assert loss.item() < first
    assert all(p.grad is not None for p in model.parameters())
    torch.testing.assert_close(twin(*inputs), y, rtol=0, atol=0)  # a copy is a copy
    model.load_state_dict(twin.state_dict())
    torch.testing.assert_close(model.eval()(*inputs), y, rtol=0, atol=0)
    double = [x.double() if x.is_floating_point() else x for x in inputs]
    torch.testing.assert_close(model.double()(*double).float(), y, rtol=1e-4, atol=1e-5)


def test_refuses_what_the_module_would_not_see():
    model = saddle.models.make("vision_transformer", image=16, patch=4, width=24, heads=4, depth=1, classes=3)
    with pytest.raises(AttributeError, match="classes="):
        model.head = torch.nn.Linear(24, 7)
    with pytest.raises(AttributeError, match="belongs to the C"):
        model.cls_token = torch.nn.Parameter(torch.ones(1, 1, 24))
    with pytest.raises(AttributeError, match="belongs to the C"):
        model.head.weight = torch.nn.Parameter(torch.ones(3, 24))
    with pytest.raises(AttributeError, match="belongs to the C"):
        del model.head.weight
    with pytest.raises(NotImplementedError, match="hooks"):
        model.head.register_forward_hook(lambda *given: None)
    model.note = "attributes of one's own are fine"
    model.head.weight.requires_grad_(False)
    twin = pickle.loads(pickle.dumps(model))
    assert not twin.head.weight.requires_grad and twin.head.bias.requires_grad


def test_reads_images_beside_texts(tmp_path):
    torch.manual_seed(1)
    model = saddle.models.make("vision_language", vocab=16, max_len=6, classes=3, width=16, heads=2, mlm=1, itm=1, mfr=1)
    tokens, images = torch.randint(1, 16, (4, 6)), torch.rand(4, 3, 16, 16)
    loss = torch.nn.functional.cross_entropy(model(tokens, images=images), torch.arange(4) % 3)
    (loss + model.extra_loss).backward()
    assert all(p.grad is not None for p in model.parameters())
    y = model.eval()(tokens, images=images)
    assert not torch.equal(model(tokens, images=images.flip(0)), y)
    model.save(tmp_path / "model.safetensors")
    twin = saddle.models.load(tmp_path / "model.safetensors").eval()
    torch.testing.assert_close(twin(tokens, images=images), y, rtol=0, atol=0)
    with pytest.raises(Exception, match="no images are given"):
        model(tokens)


@pytest.mark.parametrize("name", SMALL)
def test_saves_loads_and_exports(name, tmp_path):
    model, inputs = small(name, last_attention="softmax+bn(beta=0.5)" if name != "language_model" else "linear(elu1)")
    model.eval()
    y = model(*inputs)
    model.save(tmp_path / "model.safetensors")
    torch.testing.assert_close(saddle.models.load(tmp_path / "model.safetensors").eval()(*inputs), y, rtol=0, atol=0)
    other, _ = small(name, last_attention="softmax+bn(beta=0.5)" if name != "language_model" else "linear(elu1)")
    other.load(tmp_path / "model.safetensors")
    torch.testing.assert_close(other.eval()(*inputs), y, rtol=0, atol=0)
    model.export_onnx(tmp_path / "model.onnx", *inputs)
    assert (tmp_path / "model.onnx").stat().st_size > 1000


def as_run(model, folder, table=False):
    """A folder like that of a run: the description of the model is part of a larger one, weights lie beside a table."""
    model.save(folder / "plain.safetensors")
    bytes_ = (folder / "plain.safetensors").read_bytes()
    end = 8 + struct.unpack("<Q", bytes_[:8])[0]
    header = json.loads(bytes_[8:end])
    state = {"model": json.loads(model.description), **({"table": "flowers"} if table else {})}
    header = {("model." + name if table else name): place for name, place in header.items() if name != "__metadata__"}
    header["__metadata__"] = {"saddle": json.dumps(state)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "run/checkpoints").mkdir(parents=True)
    (folder / "run/checkpoints/best.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes_[end:])
    return folder / "run"


@pytest.mark.parametrize("table", [False, True])
def test_loads_what_a_run_has_trained(table, tmp_path):
    model, inputs = small("mvts")
    run = as_run(model, tmp_path, table)
    y = model.eval()(*inputs)
    for place in (run, str(run), run / "checkpoints/best.safetensors"):
        torch.testing.assert_close(saddle.models.load(place).eval()(*inputs), y, rtol=0, atol=0)
    for place in (run, run / "checkpoints/best.safetensors"):
        with pytest.raises(ValueError, match="saddle analyze spectrum"):
            saddle.analysis.run("spectrum", place)


def test_says_what_is_no_model(tmp_path):
    for refused in (saddle.models.load, lambda place: saddle.analysis.run("spectrum", place)):
        with pytest.raises(ValueError, match="not the folder of a run"):
            refused(tmp_path)
    for bytes_ in (b"", b"short", b"\xff" * 16, struct.pack("<Q", 4) + b"{[1]", struct.pack("<Q", 4) + b"[ 1]"):
        (tmp_path / "bad.safetensors").write_bytes(bytes_)
        with pytest.raises(ValueError, match="not a safetensors file"):
            saddle.models.load(tmp_path / "bad.safetensors")
    with pytest.raises(FileNotFoundError):
        saddle.models.load(tmp_path / "absent.safetensors")


def test_mistakes_are_named(tmp_path):
    with pytest.raises(Exception, match="deit_tiny_patch16_224"):
        saddle.models.make("deit_tyni_patch16_224")
    with pytest.raises(Exception, match="classes"):
        saddle.models.make("mvts", dims=3, max_len=4, clases=2)
    model, _ = small("mvts")
    path = tmp_path / "w.safetensors"
    model.save(path)
    with pytest.raises(Exception, match="blocks"):
        small("vision_transformer")[0].load(path)
    assert saddle.models.options("mvts")["width"][0] == "64"
    assert "flowformer" in saddle.models.names()


def test_events_have_times(tmp_path):
    torch.manual_seed(2)
    model = saddle.models.make("event_model", vocab=6, max_len=5, classes=3).eval()
    events, times = torch.randint(1, 6, (2, 5)), torch.rand(2, 5, dtype=torch.float64) * 1e6
    assert model(events, times=times).shape == (2, 3)
    assert not torch.equal(model(events, times=times), model(events, times=times + 12345))
    with pytest.raises(Exception, match="times"):
        model(events)
    with pytest.raises(Exception, match="float64"):
        model.export_onnx(tmp_path / "events.onnx", events, times=times)


@pytest.mark.parametrize("more", [[], ["--distilled"]])
def test_timm_weights_give_the_logits_of_an_independent_deit(more, tmp_path):
    reference = pathlib.Path(__file__).parents[2] / "tests" / "vit" / "deit_reference.py"
    weights, cases = tmp_path / "deit.safetensors", tmp_path / "cases.safetensors"
    subprocess.run([sys.executable, str(reference), "--weights", str(weights), "--cases", str(cases), *more], check=True)
    raw = cases.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:8 + size])

    def tensor(name):
        begin, end = header[name]["data_offsets"]
        kind = {"F32": torch.float32, "F64": torch.float64}[header[name]["dtype"]]
        return torch.frombuffer(bytearray(raw[8 + size + begin:8 + size + end]), dtype=kind).reshape(header[name]["shape"])

    name = "deit_tiny_distilled_patch16_224" if more else "deit_tiny_patch16_224"
    expected = tensor("logits")
    model = saddle.models.make(name, classes=expected.shape[1]).load(weights).eval()
    with torch.no_grad():
        found = model(tensor("images").float())
    assert (found.double() - expected).abs().max() <= 1e-5 * expected.abs().max()
