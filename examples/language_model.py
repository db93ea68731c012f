"""A language model of characters with any causal attention. Validation chooses the weights, the test part is read once.

    python3 examples/language_model.py input.txt --attention cat_causal --seed 0

The first 80 % of the text are for training, the next 10 % for validation, the last 10 % for the test.
"""

import argparse
import copy
import gzip
import json
import math
import sys

import torch

import saddle


def read(path):
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8") as file:
        return file.read()


def loss_of(model, windows):
    """Mean nats of every character of windows (B,N+1) but the first, given those before it."""
    logits = model(windows[:, :-1])
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), windows[:, 1:].flatten())


@torch.no_grad()
def evaluate(model, part, context, batch):
    """Over the whole part, in windows that follow each other."""
    model.eval()
    count = (len(part) - 1) // context
    windows = part[: count * context + 1].unfold(0, context + 1, context)
    losses = [loss_of(model, some) * len(some) for some in windows.split(batch)]
    model.train()
    return float(sum(losses) / count)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", help="a text file, also .gz")
    parser.add_argument("--attention", action="append", help="for all layers, or once for each (softmax)")
    for name, default in {"width": 128, "heads": 4, "depth": 4, "context": 128, "batch": 32, "steps": 1000,
                          "evaluate": 250, "seed": 0, "threads": 1}.items():
        parser.add_argument("--" + name, type=int, default=default, help="(%(default)s)")
    parser.add_argument("--lr", type=float, default=1e-3, help="(%(default)s)")
    given = parser.parse_args()
    for name in ("steps", "evaluate"):
        if getattr(given, name) < 1:
            parser.error(f"--{name} must be at least 1, found {getattr(given, name)}")
    torch.set_num_threads(given.threads)
    torch.manual_seed(given.seed)

    text = read(given.text)
    alphabet = {character: i for i, character in enumerate(sorted(set(text)))}
    tokens = torch.tensor([alphabet[character] for character in text])
    train, validation, test = (tokens[len(tokens) * a // 10 : len(tokens) * b // 10] for a, b in ((0, 8), (8, 9), (9, 10)))
    if len(validation) <= given.context:
        sys.exit(f"a tenth of the text is {len(validation)} characters: choose a --context below it")

    attention = given.attention or ["softmax"]
    model = saddle.models.make("language_model", vocab=len(alphabet), max_len=given.context, width=given.width,
                               heads=given.heads, depth=given.depth, dropout=0.1,
                               attention=attention[0] if len(attention) == 1 else attention)
    optimiser = torch.optim.AdamW(model.parameters(), lr=given.lr, betas=(0.9, 0.95), weight_decay=0.1)
    warmup = max(1, given.steps // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: min(
        (step + 1) / warmup, 0.5 + 0.5 * math.cos(math.pi * step / given.steps)))

    best, chosen = math.inf, None
    for step in range(1, given.steps + 1):
        starts = torch.randint(len(train) - given.context, (given.batch,))
        loss = loss_of(model, torch.stack([train[start : start + given.context + 1] for start in starts]))
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if step % given.evaluate == 0 or step == given.steps:
            found = evaluate(model, validation, given.context, given.batch)
            print(f"step {step}: train {loss.item():.4f}, validation {found:.4f}", file=sys.stderr)
            if found < best:
                best, chosen = found, copy.deepcopy(model.state_dict())
    if chosen is None:
        sys.exit("the loss on the validation part was never a number: try a smaller --lr")
    model.load_state_dict(chosen)
    print(json.dumps({"attention": attention, "seed": given.seed, "steps": given.steps,
                      "parameters": sum(p.numel() for p in model.parameters()), "validation": best,
                      "test": evaluate(model, test, given.context, given.batch)}))


if __name__ == "__main__":
    main()
