"""The model on Keras' JAX backend gives what it gives on TensorFlow's."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from layer_checks import randomise

from t2t_lite.config import HParams
from t2t_lite.models.transformer import Transformer

pytestmark = [
    pytest.mark.thorough,  # compiling takes half a minute
    pytest.mark.skipif(
        importlib.util.find_spec("jax") is None, reason="needs jax, of the extra jax"
    ),
]

BASE = HParams(
    num_encoder_layers=1, num_decoder_layers=1, d_model=8, d_ff=12, num_heads=2, d_k=3, d_v=5,
    dropout=0.3, attention_dropout=0.1, relu_dropout=0.1, neighbourhood=3,
)  # fmt: skip
WORDS = [number % 3 == 0 for number in range(11)], [number % 2 == 0 for number in range(11)]
MODELS = {  # several fields at a time, as compiling is slow
    "base": (BASE, 11, 11),
    "pre, learned, recurrent": (
        BASE.replace(norm="pre", positions="learned", encoder_layer="recurrent"),
        11,
        11,
        False,
    ),
    "next word given, restricted": (
        BASE.replace(next_word="given", encoder_layer="restricted_self_attention"),
        11,
        11,
        False,
        WORDS,
    ),
    "tensor2tensor, convolution": (
        BASE.replace(
            positions="sinusoidal_halves",
            tie_softmax=False,
            target_space=True,
            encoder_layer="convolution",
        ),
        11,
        11,
    ),
}
INPUTS = np.array([[5, 7, 4, 9, 1], [8, 1, 0, 0, 0]], np.int32)
TARGETS = np.array([[3, 9, 9, 1], [6, 1, 0, 0]], np.int32)
BEAMS = np.random.default_rng(1).integers(2, 11, [2, 3, 5]).astype(np.int32)


@pytest.fixture(scope="module")
def models():
    return {name: randomise(Transformer(*arguments)) for name, arguments in MODELS.items()}


@pytest.fixture(scope="module")
def found(models, tmp_path_factory):
    """What the process of its own has given."""
    folder = tmp_path_factory.mktemp("jax")
    configs = {name: model.get_config() for name, model in models.items()}
    (folder / "models.json").write_text(json.dumps(configs))
    weights = {
        f"{name}/{i}": weight
        for name, model in models.items()
        for i, weight in enumerate(model.get_weights())
    }
    np.savez(folder / "given.npz", inputs=INPUTS, targets=TARGETS, beams=BEAMS, **weights)
    script = Path(__file__).resolve().parents[1] / "jax_process.py"
    result = subprocess.run([sys.executable, script, folder], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return np.load(folder / "found.npz")


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_tensorflows(models, found, name):
    expected = models[name](INPUTS, TARGETS)
    np.testing.assert_allclose(found[f"{name}/logits"], expected, atol=6e-6, rtol=0)


@pytest.mark.parametrize("name", MODELS)
def test_cached_steps_are_tensorflows(models, found, name):
    whole = [models[name](INPUTS, BEAMS[:, beam]).numpy() for beam in range(BEAMS.shape[1])]
    np.testing.assert_allclose(found[f"{name}/steps"], np.stack(whole, 1), atol=6e-6, rtol=0)


@pytest.mark.parametrize("name", MODELS)
def test_dropout_follows_from_its_seed(found, name):
    dropped = found[f"{name}/dropped"]
    np.testing.assert_array_equal(found[f"{name}/dropped again"], dropped)
    for other in "logits", "dropped otherwise":
        assert np.abs(found[f"{name}/{other}"] - dropped).max() > 0.01
