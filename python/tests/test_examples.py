import gzip
import json
import pathlib
import subprocess
import sys

import numpy as np

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def test_language_model_learns_and_is_seeded(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("to be or not to be, that is the question. " * 100)
    run = [sys.executable, EXAMPLES / "language_model.py", text, "--width", "16", "--heads", "2", "--depth", "2",
           "--context", "32", "--batch", "8", "--steps", "40", "--evaluate", "20", "--lr", "1e-2"]
    for attention in (["softmax"], ["cat_causal"], ["cat_causal", "softmax"]):
        command = run + [word for form in attention for word in ("--attention", form)]
        found, again = (json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(2))
        assert found == again and found["attention"] == attention
        assert found["test"] < 2.5  # nats; 15 characters, all alike, have 2.71


def test_language_model_refuses_short_texts(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("to be")
    done = subprocess.run([sys.executable, EXAMPLES / "language_model.py", text], capture_output=True, text=True)
    assert done.returncode == 1 and "--context" in done.stderr


def test_language_model_refuses_what_chooses_nothing(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("to be or not to be, that is the question. " * 100)
    run = [sys.executable, EXAMPLES / "language_model.py", text, "--width", "16", "--heads", "2", "--depth", "1",
           "--context", "32", "--batch", "4"]
    for name in ("--steps", "--evaluate"):
        done = subprocess.run(run + [name, "0"], capture_output=True, text=True)
        assert done.returncode == 2 and f"{name} must be at least 1" in done.stderr
    done = subprocess.run(run + ["--steps", "3", "--lr", "inf"], capture_output=True, text=True)
    assert done.returncode == 1 and "smaller --lr" in done.stderr


def test_harness_b_in_plain_torch_learns_and_is_seeded(tmp_path):
    run = [sys.executable, "-B", ROOT / "tools/harness_b.py"]
    learn = run + [EXAMPLES / "data/waves", "--width", "64", "--epochs", "24"]
    found, again = (subprocess.run(learn, check=True, capture_output=True, text=True).stdout for _ in range(2))
    rows = [[float(x) for x in line.split()] for line in found.splitlines()]
    assert found == again and [row[0] for row in rows] == [1] + list(range(2, 25, 2))
    assert rows[-1][1] < 0.8  # nats; three classes, all alike, have 1.1
    assert rows[-1][3] == max(row[2] for row in rows) > 45
    done = subprocess.run(run + [tmp_path], capture_output=True, text=True)
    assert done.returncode == 1 and "_TRAIN.ts" in done.stderr


def drawn(folder, characters=12, drawers=4):
    """Characters of blocks that no other has, drawn with single bits wrong, as the files of omniglot-small hold them."""
    random = np.random.default_rng(0)
    records = b""
    for character in range(characters):
        image = np.kron(random.random((5, 5)) < 0.5, np.ones((21, 21), bool))
        for drawer in range(drawers):
            bits = np.packbits((image ^ (random.random((105, 105)) < 0.02)).flatten())
            records += np.array([0, character], "<u2").tobytes() + bytes([drawer + 1]) + bits.tobytes()
    folder.mkdir()
    (folder / "background_small1.bin.gz").write_bytes(gzip.compress(records))


def test_one_shot_images_is_seeded_and_removes_heads(tmp_path):
    drawn(tmp_path / "images")
    command = [sys.executable, "-B", EXAMPLES / "one_shot_images.py", tmp_path / "images", "--width", "16", "--steps", "30",
               "--evaluate", "10", "--batch", "16", "--examples", "20", "--tests", "100", "--seeds", "2"]
    found, again = (json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(2))
    assert found == again and len(found["runs"]) == 2
    for run in found["runs"]:
        assert run["nearest"] == 100  # unlike characters are told apart by their pixels
        assert len(run["without"]) == 8 and max(run["scores"]) == 1
        whole = {courses[0] for courses in run["courses"].values()}
        assert len(whole) == 1 and all(len(courses) == 7 for courses in run["courses"].values())
    first, second = found["runs"]
    assert first["scores"] != second["scores"]


def test_one_shot_images_refuses_other_folders(tmp_path):
    run = [sys.executable, "-B", EXAMPLES / "one_shot_images.py", tmp_path]
    done = subprocess.run(run, capture_output=True, text=True)
    assert done.returncode == 1 and "0 characters found" in done.stderr
    (tmp_path / "background_small1.bin").write_bytes(b"short")
    done = subprocess.run(run, capture_output=True, text=True)
    assert done.returncode == 1 and "5 bytes are no records of 1384" in done.stderr
