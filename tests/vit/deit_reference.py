"""A vision transformer in plain torch, written from the papers (ViT, DeiT) and timm's names alone: random weights, images
and the logits that any other implementation must give. Nothing but torch and numpy is needed.

    deit_reference.py --weights deit.safetensors --cases cases.safetensors [--distilled] [--width 192 ...]

cases.safetensors holds images [B,3,S,S] float32, logits [B,classes] computed in float64, and logits_f32 in float32; its
metadata tell the sizes of the model.
"""
import argparse
import json
import struct

import numpy
import torch
from torch.nn.functional import conv2d, gelu, layer_norm, linear, softmax

TYPES = {"float32": "F32", "float64": "F64", "int64": "I64", "bool": "BOOL"}


def write_safetensors(path, tensors, metadata):
    """8 bytes of header length, a JSON header, the bytes of the tensors one behind the other."""
    header, data, end = {"__metadata__": metadata}, [], 0
    for name, array in tensors.items():
        array = numpy.ascontiguousarray(array)
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": TYPES[str(array.dtype)], "shape": list(array.shape), "data_offsets": [begin, end]}
        data.append(array.tobytes())
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data))


def random_weights(size, random):
    """Named as in timm. Scales are such that every tensor matters in the logits: attention is far from uniform."""
    X, P, tokens = size.width, size.patch, (size.image // size.patch) ** 2 + 1 + size.distilled

    def normal(*shape, scale=1.0, mean=0.0):
        return (mean + scale * random.standard_normal(shape)).astype(numpy.float32)

    def layer(name, rows, *columns, gain=1.0):
        fan = int(numpy.prod(columns))
        return {name + ".weight": normal(rows, *columns, scale=gain * fan ** -0.5), name + ".bias": normal(rows, scale=0.1)}

    def norm(name):
        return {name + ".weight": normal(X, scale=0.2, mean=1.0), name + ".bias": normal(X, scale=0.2)}

    weights = {"cls_token": normal(1, 1, X), "pos_embed": normal(1, tokens, X, scale=0.5)}
    if size.distilled:
        weights["dist_token"] = normal(1, 1, X)
    weights.update(layer("patch_embed.proj", X, 3, P, P))
    for i in range(size.depth):
        block = f"blocks.{i}."
        weights.update(norm(block + "norm1"))
        weights.update(layer(block + "attn.qkv", 3 * X, X, gain=1.5))
        weights.update(layer(block + "attn.proj", X, X))
        weights.update(norm(block + "norm2"))
        weights.update(layer(block + "mlp.fc1", size.mlp * X, X))
        weights.update(layer(block + "mlp.fc2", X, size.mlp * X))
    weights.update(norm("norm"))
    weights.update(layer("head", size.classes, X))
    if size.distilled:
        weights.update(layer("head_dist", size.classes, X))
    return weights


def attention(x, w, name, heads):
    """x [B,N,X] -> [B,N,X]; rows of qkv: all heads of q, then of k, then of v."""
    B, N, X = x.shape
    qkv = linear(x, w[name + "qkv.weight"], w[name + "qkv.bias"]).reshape(B, N, 3, heads, X // heads)
    q, k, v = (qkv[:, :, part].transpose(1, 2) for part in range(3))
    weights = softmax(q @ k.transpose(-2, -1) * (X // heads) ** -0.5, -1)
    return linear((weights @ v).transpose(1, 2).reshape(B, N, X), w[name + "proj.weight"], w[name + "proj.bias"])


def logits(images, w, size):
    """images [B,3,S,S] -> [B,classes]; in evaluation a distilled model averages its two heads."""

    def norm(x, name):
        return layer_norm(x, (size.width,), w[name + ".weight"], w[name + ".bias"], 1e-6)

    patches = conv2d(images, w["patch_embed.proj.weight"], w["patch_embed.proj.bias"], stride=size.patch)
    first = [w["cls_token"]] + ([w["dist_token"]] if size.distilled else [])
    tokens = [token.expand(len(images), 1, size.width) for token in first] + [patches.flatten(2).transpose(1, 2)]
    x = torch.cat(tokens, 1) + w["pos_embed"]
    for i in range(size.depth):
        block = f"blocks.{i}."
        x = x + attention(norm(x, block + "norm1"), w, block + "attn.", size.heads)
        hidden = gelu(linear(norm(x, block + "norm2"), w[block + "mlp.fc1.weight"], w[block + "mlp.fc1.bias"]))
        x = x + linear(hidden, w[block + "mlp.fc2.weight"], w[block + "mlp.fc2.bias"])
    x = norm(x, "norm")
    y = linear(x[:, 0], w["head.weight"], w["head.bias"])
    return (y + linear(x[:, 1], w["head_dist.weight"], w["head_dist.bias"])) / 2 if size.distilled else y


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--cases", required=True)
    parser.add_argument("--distilled", action="store_true")
    defaults = {"image": 224, "patch": 16, "width": 192, "depth": 12, "heads": 3, "mlp": 4, "classes": 1000}
    for name, value in defaults.items():
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    size = parser.parse_args()

    random = numpy.random.default_rng(size.seed)
    weights = random_weights(size, random)
    images = random.standard_normal((size.batch, 3, size.image, size.image)).astype(numpy.float32)
    results = {}
    with torch.no_grad():
        for name, dtype in (("logits", torch.float64), ("logits_f32", torch.float32)):
            cast = {key: torch.from_numpy(value).to(dtype) for key, value in weights.items()}
            results[name] = logits(torch.from_numpy(images).to(dtype), cast, size).numpy()
    sizes = {name: str(getattr(size, name)) for name in defaults}
    write_safetensors(size.weights, weights, {"format": "pt"})
    write_safetensors(size.cases, {"images": images, **results}, {**sizes, "distilled": str(int(size.distilled))})


if __name__ == "__main__":
    main()
