"""Learning rates against Eq. 3 and tensor2tensor's own; Adam against NumPy."""

import json
import math

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.training.optimizer import Adam, learning_rate

BASE = HParams()


@pytest.mark.parametrize("step", [1, 2, 100, 3999, 4000, 4001, 100_000])
def test_rsqrt_is_the_papers_formula(step):
    expected = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
    assert float(learning_rate(BASE, step)) == pytest.approx(expected, rel=1e-6)
    doubled = BASE.replace(learning_rate=2.0)
    assert float(learning_rate(doubled, step)) == pytest.approx(2 * expected, rel=1e-6)


def test_rsqrt_peaks_at_the_end_of_the_warmup():
    rates = learning_rate_of_steps(BASE.replace(warmup_steps=10, d_model=256), 40)
    assert np.argmax(rates) + 1 == 10
    assert rates[9] == pytest.approx(256**-0.5 * 10**-0.5, rel=1e-6)
    assert rates[39] == pytest.approx(rates[9] / 2, rel=1e-6)


@pytest.mark.parametrize(
    "name, factor, warmup", [("transformer_base_v1", 1.0, 4000), ("transformer_base_v2", 2.0, 8000)]
)
def test_rsqrt_is_tensor2tensors(shared, name, factor, warmup):
    """Its 'legacy' schedule is Eq. 3; `global_step` is 0 at the first update, ours is 1."""
    stored = json.loads((shared / "oracle/lr.json").read_text())
    hparams = BASE.replace(learning_rate=factor, warmup_steps=warmup)
    rates = [float(learning_rate(hparams, step + 1)) for step in stored["steps"]]
    np.testing.assert_allclose(rates, stored["sets"][name]["lr"], rtol=2e-6)


def test_the_schedule_of_later_sets_counts_from_0(shared):
    """tensor2tensor's v3 sets: the first update has rate 0."""
    stored = json.loads((shared / "oracle" / "lr.json").read_text())
    rates = stored["sets"]["transformer_base_v3"]["lr"]
    hparams = HParams(learning_rate=2.0, warmup_steps=8000, first_step=0)
    for step, rate in zip(stored["steps"], rates):
        assert float(learning_rate(hparams, step + 1)) == pytest.approx(rate, rel=1e-6, abs=1e-12)


def test_constant():
    hparams = BASE.replace(schedule="constant", learning_rate=1e-3, warmup_steps=4)
    expected = np.array([0.25, 0.5, 0.75, 1, 1, 1]) * 1e-3
    np.testing.assert_allclose(learning_rate_of_steps(hparams, 6), expected, rtol=1e-6)
    np.testing.assert_allclose(
        learning_rate_of_steps(hparams.replace(warmup_steps=0), 3), [1e-3] * 3, rtol=1e-6
    )


def test_cosine():
    hparams = BASE.replace(schedule="cosine", learning_rate=1e-3, warmup_steps=10, train_steps=30)
    expected = [
        min(1, step / 10) * 0.5 * (1 + math.cos(math.pi * max(0, step - 10) / 20))
        for step in range(1, 31)
    ]
    rates = learning_rate_of_steps(hparams, 32)
    np.testing.assert_allclose(rates[:30], np.array(expected) * 1e-3, atol=1e-9)
    assert rates[9] == pytest.approx(1e-3) and rates[19] == pytest.approx(5e-4)
    np.testing.assert_allclose(rates[29:], 0, atol=1e-9)  # and stays there


def learning_rate_of_steps(hparams, steps):
    return np.array([float(learning_rate(hparams, step)) for step in range(1, steps + 1)])


SHAPES = {"matrix": (3, 4), "bias": (4,)}
HPARAMS = BASE.replace(schedule="constant", learning_rate=0.1, warmup_steps=3, adam_beta2=0.9)


def gradients(step):
    """Of very different sizes, zero among them."""
    random = np.random.default_rng(step)
    made = []
    for shape in SHAPES.values():
        sizes = 10.0 ** random.integers(-6, 3, shape) * (random.random(shape) < 0.8)
        made.append((random.normal(size=shape) * sizes).astype(np.float32))
    return made


def variables():
    random = np.random.default_rng(100)
    return {
        name: tf.Variable(random.normal(size=shape).astype(np.float32))
        for name, shape in SHAPES.items()
    }


def state(adam, live):
    """Bytes, for no two floats to count as equal that are not the same."""
    return {
        name: value.numpy().tobytes()
        for name, value in {**live, **adam.slots, "step": adam.step}.items()
    }


def update(adam, gradients, finite=True):
    adam.apply([tf.constant(gradient) for gradient in gradients], tf.constant(finite))
    adam.step.assign_add(1)


def test_adam_equals_numpy():
    live = variables()
    adam = Adam(HPARAMS, live)
    w = {name: variable.numpy().astype(np.float64) for name, variable in live.items()}
    m, v = ({name: np.zeros(shape) for name, shape in SHAPES.items()} for _ in range(2))
    for t in range(1, 6):
        given = gradients(t)
        update(adam, given)
        rate = 0.1 * min(1, t / 3)
        for name, gradient in zip(SHAPES, given):
            gradient = gradient.astype(np.float64)
            m[name] = 0.9 * m[name] + 0.1 * gradient
            v[name] = 0.9 * v[name] + 0.1 * gradient**2
            alpha = rate * np.sqrt(1 - 0.9**t) / (1 - 0.9**t)
            w[name] -= alpha * m[name] / (np.sqrt(v[name]) + 1e-9)
            np.testing.assert_allclose(live[name], w[name], atol=2e-6)
            np.testing.assert_allclose(adam.slots[f"m/{name}"], m[name], rtol=1e-4, atol=1e-12)
            np.testing.assert_allclose(adam.slots[f"v/{name}"], v[name], rtol=1e-4, atol=1e-18)


def test_adam_has_the_papers_constants():
    """The first update moves each weight by the learning rate, whatever its gradient."""
    live = variables()
    before = live["matrix"].numpy()
    adam = Adam(BASE.replace(schedule="constant", learning_rate=0.01, warmup_steps=0), live)
    update(adam, [tf.fill(shape, 1e-4) for shape in SHAPES.values()])
    np.testing.assert_allclose(before - live["matrix"].numpy(), 0.01, rtol=1e-3)
    np.testing.assert_allclose(adam.slots["m/matrix"], 0.1 * 1e-4, rtol=1e-5)
    np.testing.assert_allclose(adam.slots["v/matrix"], 0.02 * 1e-8, rtol=1e-4)


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_an_update_that_is_not_finite_changes_nothing(bad):
    live = variables()
    adam = Adam(HPARAMS, live)
    update(adam, gradients(1))
    before = state(adam, live)
    broken = gradients(2)
    broken[0][1, 2] = bad
    update(adam, broken, finite=False)
    adam.step.assign_sub(1)
    assert state(adam, live) == before

    update(adam, gradients(3))
    other = variables()
    straight = Adam(HPARAMS, other)
    for step in (1, 3):
        update(straight, gradients(step))
    assert state(adam, live) == state(straight, other)


def test_all_state_is_named():
    adam = Adam(HPARAMS, variables())
    assert set(adam.slots) == {"m/matrix", "v/matrix", "m/bias", "v/bias"}
    assert adam.step.dtype == tf.int64
