"""Which heads does a network need that gradient descent trained? The theory of attention paths is asked, and heads are removed.

    python3 examples/one_shot_images.py omniglot-small --seeds 3

Task: of two drawn characters with the labels +1 and -1, which one is the third? Characters of validation and test are
not among those of training. The network is the one of the theory: attention sees the raw input, no residual branches, no
feed-forward networks, linear in its values. Queries and keys are learned too; the theory takes them as they are.
"""

import argparse
import gzip
import json
import math
import pathlib
import sys

import numpy as np
import torch

import saddle

SIDE, PATCH, CHANNELS = 32, 8, 3
FEATURES, PATCHES = CHANNELS * PATCH**2, (SIDE // PATCH) ** 2
LAYERS, HEADS, HEAD_WIDTH = 2, 4, 128
TEMPERATURES = (0.01, 0.1, 1.0)


def read(folder):
    """Images [characters,drawers,32,32] of the two background sets: records of alphabet, character, drawer, 105 x 105 bits."""
    characters = []
    for path in sorted(pathlib.Path(folder).glob("background_small*.bin*")):
        packed = gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()
        record = 5 + 1379
        if not packed or len(packed) % record:
            sys.exit(f"{path}: {len(packed)} bytes are no records of {record}")
        records = np.frombuffer(packed, np.uint8).reshape(-1, record)
        bits = np.unpackbits(records[:, 5:], axis=1)[:, : 105 * 105].reshape(-1, 1, 105, 105)
        images = torch.nn.functional.adaptive_avg_pool2d(torch.from_numpy(bits).float(), SIDE)[:, 0]
        owner = records[:, 2].astype(int) + 256 * records[:, 3]
        characters += [images[torch.from_numpy(owner == each)] for each in np.unique(owner)]
    if len(characters) < 12:
        sys.exit(f"{folder}: {len(characters)} characters found, at least 12 are needed in background_small*.bin.gz")
    return torch.stack([each[: min(map(len, characters))] for each in characters])


class Episodes:
    """Draws of two labelled images and a third: x [P,features,tokens] as the theory wants it, y [P] of +1 and -1."""

    def __init__(self, images):
        patches = images.unfold(2, PATCH, PATCH).unfold(3, PATCH, PATCH).flatten(2, 3).flatten(3)  # [C,D,patches,64]
        patches = torch.nn.functional.layer_norm(patches.repeat(1, 1, 1, CHANNELS), (FEATURES,))
        self.images, self.patches = images, patches
        frozen = torch.Generator().manual_seed(0)
        self.labels = torch.nn.functional.layer_norm(torch.randn(2, FEATURES, generator=frozen), (FEATURES,))
        angles = torch.arange(3 * PATCHES)[:, None] / 10000 ** (torch.arange(0, FEATURES, 2) / FEATURES)
        self.positions = torch.nn.functional.layer_norm(torch.stack([angles.sin(), angles.cos()], 2).flatten(1), (FEATURES,))

    def draw(self, count, random):
        total, drawers = self.patches.shape[:2]
        pick = lambda below: torch.randint(below, (count,), generator=random)
        one = pick(total)
        other = (one + 1 + pick(total - 1)) % total
        second = pick(2)  # which of the two the third image is
        third = torch.where(second == 1, other, one)
        swap = pick(2)  # which label the first has
        first_by, second_by, third_by = pick(drawers), pick(drawers), pick(drawers - 1)
        own = torch.where(second == 1, second_by, first_by)
        third_by = third_by + (third_by >= own)  # not the same image
        at = [(one, first_by), (other, second_by), (third, third_by)]
        x = torch.stack([self.patches[where] for where in at], 1)
        x[:, 0] += self.labels[swap][:, None]
        x[:, 1] += self.labels[1 - swap][:, None]
        x = x.flatten(1, 2) + self.positions
        y = 1.0 - 2.0 * (second ^ swap)
        return x.transpose(1, 2), y, [self.images[where] for where in at], 1.0 - 2.0 * swap

    def nearest(self, count, random):
        """The simple method: the label of the image with the larger cosine to the third, pixel by pixel."""
        _, y, (one, other, third), label = self.draw(count, random)
        like = lambda image: torch.cosine_similarity(image.flatten(1), third.flatten(1))
        return float(((like(one) - like(other)) * label * y > 0).float().mean())


class Network(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        draw = lambda *shape: torch.nn.Parameter(torch.randn(*shape) / math.sqrt(shape[-1]))
        self.q, self.k = (torch.nn.ParameterList(draw(HEADS, HEAD_WIDTH, FEATURES) for _ in range(LAYERS)) for _ in range(2))
        self.v0 = draw(width, FEATURES)
        self.v = torch.nn.ParameterList(draw(HEADS, width, width) for _ in range(LAYERS))
        self.a = draw(width)

    def attention(self, x, layer):
        """[P,H,key,query]"""
        keys, queries = (torch.einsum("hgf,pft->phgt", weights[layer], x) for weights in (self.k, self.q))
        return (keys.transpose(2, 3) @ queries / math.sqrt(HEAD_WIDTH)).softmax(2)

    def attended(self, x):
        """The input as each path attends to it [P,H,H,features]: pooled by the average, it is all that the other weights see."""
        paths = torch.einsum("phsu,pgu->phgs", self.attention(x, 0), self.attention(x, 1).mean(3))
        return torch.einsum("pfs,phgs->phgf", x, paths)

    def answer(self, attended, kept=torch.ones(LAYERS, HEADS)):
        """Layers are divided by the root of the heads that are kept."""
        scale = kept / kept.sum(1, keepdim=True).sqrt()
        z = torch.einsum("phgn,hmn,h->pgm", attended @ self.v0.T, self.v[0], scale[0])
        return torch.einsum("pgm,gkm,g,k->p", z, self.v[1], scale[1], self.a)

    def forward(self, x):
        return self.answer(self.attended(x))


class Judge:
    """Accuracy on episodes, in percent, with all heads or with some."""

    @torch.no_grad()
    def __init__(self, network, episodes):
        self.network, self.y = network, episodes[1]
        self.attended = torch.cat([network.attended(some) for some in episodes[0].split(500)])

    @torch.no_grad()
    def __call__(self, kept=torch.ones(LAYERS, HEADS)):
        return 100 * float((self.network.answer(self.attended, kept) * self.y > 0).float().mean())


def train(network, episodes, validation, given, random):
    """The loss is the squared error; validation chooses the weights."""
    optimiser = torch.optim.AdamW(network.parameters(), lr=given.lr, weight_decay=0)
    best, chosen = -1.0, None
    for step in range(1, given.steps + 1):
        x, y, *_ = episodes.draw(given.batch, random)
        loss = (network(x) - y).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step % given.evaluate == 0 or step == given.steps:
            found = Judge(network, validation)()
            print(f"step {step}: loss {loss.item():.3f}, validation {found:.1f} %", file=sys.stderr, flush=True)
            if found > best:
                best, chosen = found, {name: value.clone() for name, value in network.state_dict().items()}
    network.load_state_dict(chosen)
    return best


def theory_of(network, examples, tests, width):
    """Scores [layers,heads]; the temperature is the one with which the theory itself predicts best on validation."""
    task = {"x_train": examples[0], "y_train": examples[1], "x_test": tests[0], "y_test": tests[1]}
    for layer in range(LAYERS):
        task[f"q{layer + 1}"], task[f"k{layer + 1}"] = network.q[layer], network.k[layer]
    tried = [(saddle.analysis.run("attention_paths", task, temperature=each, width=width)["result"], each)
             for each in TEMPERATURES]
    result, temperature = max(tried, key=lambda pair: pair[0]["accuracy"])
    scores = torch.zeros(LAYERS, HEADS)
    for head in result["scores"]:
        scores[head["layer"], head["head"]] = head["score"]
    return scores, {"temperature": temperature, "accuracy": 100 * result["accuracy"], "infinite": 100 * result["accuracy_gp"]}


def course(accuracy, scores):
    """Accuracy as heads go one after the other, small scores first, until each layer has one."""
    kept = torch.ones(LAYERS, HEADS)
    found = [accuracy(kept)]
    for index in scores.flatten().argsort(stable=True).tolist():
        layer, head = divmod(index, HEADS)
        if kept[layer].sum() > 1:
            kept[layer, head] = 0
            found.append(accuracy(kept))
    return found


def alone(accuracy):
    """Accuracy without each head [layers*heads], the others as they are."""
    found = []
    for index in range(LAYERS * HEADS):
        kept = torch.ones(LAYERS, HEADS)
        kept[divmod(index, HEADS)] = 0
        found.append(accuracy(kept))
    return found


def rank_correlation(a, b):
    ranks = lambda values: np.argsort(np.argsort(values, kind="stable"), kind="stable")
    return float(np.corrcoef(ranks(np.asarray(a)), ranks(np.asarray(b)))[0, 1])


def measure(seed, parts, given):
    torch.manual_seed(seed)
    random = torch.Generator().manual_seed(seed)
    training, validation, test = (Episodes(part) for part in parts)
    judged = validation.draw(given.tests, random)[:2]
    network = Network(given.width)
    best = train(network, training, judged, given, random)
    scores, theory = theory_of(network, training.draw(given.examples, random)[:2], judged, given.width)
    norms = torch.stack([layer.detach().flatten(1).norm(dim=1) for layer in network.v])
    accuracy = Judge(network, test.draw(given.tests, random))
    without = alone(accuracy)
    draws = [course(accuracy, torch.rand(LAYERS, HEADS)) for _ in range(given.draws)]
    return {"seed": seed, "validation": best, "theory": theory, "nearest": 100 * test.nearest(given.tests, random),
            "scores": scores.flatten().tolist(), "norms": norms.flatten().tolist(), "without": without,
            "correlation": {"theory": rank_correlation(scores.flatten(), [-each for each in without]),
                            "magnitude": rank_correlation(norms.flatten(), [-each for each in without])},
            "courses": {"theory": course(accuracy, scores), "magnitude": course(accuracy, norms),
                        "random": np.mean(draws, 0).tolist()}}


def show(runs):
    spread = lambda values: f"{np.mean(values):.1f} ± {np.std(values, ddof=1) if len(values) > 1 else 0:.1f}"
    print("heads  " + "  ".join(f"{by:>12}" for by in runs[0]["courses"]), file=sys.stderr)
    for step in range(LAYERS * (HEADS - 1) + 1):
        cells = [spread([run["courses"][by][step] for run in runs]) for by in runs[0]["courses"]]
        print(f"{LAYERS * HEADS - step:>5}  " + "  ".join(f"{cell:>12}" for cell in cells), file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="with background_small1.bin.gz and background_small2.bin.gz")
    for name, default in {"width": 512, "steps": 3000, "batch": 128, "evaluate": 250, "examples": 600, "tests": 2000,
                          "draws": 5, "seeds": 1, "first": 0, "threads": 1}.items():
        parser.add_argument("--" + name, type=int, default=default, help="(%(default)s)")
    parser.add_argument("--lr", type=float, default=3e-4, help="(%(default)s)")
    given = parser.parse_args()
    for name in ("width", "steps", "batch", "evaluate", "examples", "tests", "draws", "seeds", "threads"):
        if getattr(given, name) < 1:
            parser.error(f"--{name} must be at least 1, found {getattr(given, name)}")
    torch.set_num_threads(given.threads)
    images = read(given.folder)
    images = images[torch.randperm(len(images), generator=torch.Generator().manual_seed(0))]
    cuts = [len(images) * share // 6 for share in (0, 4, 5, 6)]
    parts = [images[begin:end] for begin, end in zip(cuts, cuts[1:])]
    runs = [measure(given.first + seed, parts, given) for seed in range(given.seeds)]
    show(runs)
    print(json.dumps({"steps": given.steps, "width": given.width, "runs": runs}))


if __name__ == "__main__":
    main()
