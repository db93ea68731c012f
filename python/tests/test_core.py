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
