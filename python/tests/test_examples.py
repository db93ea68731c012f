import json
import pathlib
import subprocess
import sys

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
