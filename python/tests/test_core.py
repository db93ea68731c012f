import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

import saddle


def test_derivation():
    assert "Derivation of softmax+bn(beta=0.6)" in saddle.derive("softmax+bn(beta=0.6)")
    assert saddle.derive("softmax", "json")["certificate"]["holds"]
    assert saddle.derive("softmax", "html").lstrip().startswith("<!")


def test_explain_names_the_choice():
    assert "linear" in saddle.explain("linear(elu1)", (1, 8, 4096, 64))
    with pytest.raises(ValueError, match="expected B,H,N,D"):
        saddle.explain("softmax", (1, 2, 3))


def test_regression():
    x = np.linspace(0, 6, 40)
    fit = saddle.svr.fit(x, np.stack([np.sin(x), np.cos(x)], 1), C=10, bias=True)
    assert fit.converged and fit.values.shape == (40, 2)
    error = np.abs(fit.predict(x) - np.stack([np.sin(x), np.cos(x)], 1)).max()
    assert error < 0.2
    for channel in fit.channels:
        assert channel["primal"] - channel["dual"] < 1e-6 * (1 + abs(channel["primal"]))


def test_version_and_doctor():
    assert saddle.__version__.count(".") == 2
    result = subprocess.run([sys.executable, "-m", "saddle", "doctor"], capture_output=True, text=True)
    assert result.returncode == 0 and "all is well" in result.stdout, result.stdout + result.stderr


def test_the_library_is_looked_for_where_the_package_is(tmp_path):
    shutil.copytree(pathlib.Path(saddle._core.__file__).parent, tmp_path / "a" / "b" / "saddle",
                    ignore=shutil.ignore_patterns("libsaddle_torch.so", "__pycache__"))
    (tmp_path / "libsaddle_torch.so").write_bytes(b"not this one")
    imported = lambda **given: subprocess.run(
        [sys.executable, "-B", "-c", "import saddle; print(saddle.__file__)"], capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "a" / "b"), **given})
    done = imported(SADDLE_LIBRARY="")
    assert done.returncode == 1 and "set SADDLE_LIBRARY" in done.stderr
    loaded = next(path for path in saddle._library.torch.ops.loaded_libraries if "libsaddle_torch.so" in path)
    done = imported(SADDLE_LIBRARY=str(pathlib.Path(loaded).parent))
    assert done.returncode == 0 and str(tmp_path) in done.stdout, done.stderr
