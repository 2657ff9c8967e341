"""tensor2tensor's sets against its own values and learning rates."""

import json

import pytest

from t2t_lite import registry
from t2t_lite.errors import UserError
from t2t_lite.tensor2tensor import settings
from t2t_lite.training.optimizer import learning_rate

registry.load_plugins()
REFUSED = {"transformer_tpu": "Adafactor", "transformer_base_multistep8": "multistep_adam"}


@pytest.fixture(scope="module")
def stored(shared):
    """{set: all of tensor2tensor's values}."""
    found = json.loads((shared / "oracle/hparams_sets.json").read_text())
    base = found["transformer_base_v1"]
    differences = {"transformer_base_v1": {}, **found["differences_from_v1"]}
    return {name: base | values for name, values in differences.items()}


def test_sets_have_tensor2tensors_values(stored):
    compared = 0
    for name, values in stored.items():
        if name == "transformer_test":
            continue
        assert registry.hparams(name).differences(settings.read(values)) == [], name
        compared += 1
    assert compared > 8


def test_learning_rates_are_tensor2tensors(shared):
    """Of all sets that train with Adam; the others are refused by name."""
    rates = json.loads((shared / "oracle/lr.json").read_text())
    for name, found in rates["sets"].items():
        if name in REFUSED:
            with pytest.raises(UserError, match=f"optimizer='{REFUSED[name]}' is not here"):
                settings.read(found["hparams"])
            continue
        for hparams in registry.hparams(name), settings.read(found["hparams"]):
            ours = [float(learning_rate(hparams, step + 1)) for step in rates["steps"]]
            assert ours == pytest.approx(found["lr"], rel=1e-6, abs=1e-12), name
