"""Embeddings tied to the softmax, and positions, against the formulas of sections 3.4 and 3.5."""

import numpy as np
import numpy_transformer as oracle
import pytest
import tensorflow as tf
from layer_checks import randomise, weights

from t2t_lite.layers.embedding import Embedding, PositionalEncoding, sinusoid_halves, sinusoids

V, D = 11, 6
IDS = np.array([[3, 10, 1, 0], [4, 1, 0, 0]], np.int32)


def embedding(**kwargs):
    layer = Embedding(V, D, **kwargs)
    layer.build()
    return randomise(layer)


def encoding(kind, **kwargs):
    layer = PositionalEncoding(kind, **kwargs)
    layer.build((None, None, D))
    return randomise(layer)


def test_embeds_times_the_root_of_d_model():
    layer = embedding()
    np.testing.assert_allclose(
        layer(IDS), oracle.embed(IDS, weights(layer)["embeddings"]), atol=1e-6
    )


def test_padding_is_the_zero_vector_and_learns_nothing_from_it():
    layer = embedding()
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(layer(IDS))
    assert np.all(layer(IDS).numpy()[IDS == 0] == 0)
    gradient = tf.convert_to_tensor(tape.gradient(total, layer.embeddings.value)).numpy()
    assert np.all(gradient[0] == 0) and np.all(gradient[3] != 0)


def test_logits_are_products_with_the_same_matrix():
    layer = embedding()
    x = np.random.default_rng(2).normal(size=(2, 3, D)).astype(np.float32)
    assert len(layer.variables) == 1
    np.testing.assert_allclose(layer.logits(x), x @ weights(layer)["embeddings"].T, atol=1e-5)
    half = embedding(dtype="mixed_bfloat16")
    assert half.embeddings.dtype == half.logits(tf.cast(x, "bfloat16")).dtype == "float32"


def test_initial_vectors_have_unit_variance():
    layer = Embedding(200, 64)
    layer.build()
    assert np.std(layer(np.arange(1, 200))) == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("d_model", [6, 7, 1])
def test_sinusoids_interleave_sine_and_cosine(d_model):
    np.testing.assert_allclose(
        sinusoids(np.arange(50), d_model), oracle.positions(50, d_model), atol=1e-5
    )


def test_sinusoids_of_the_paper_by_hand():
    table = sinusoids(np.arange(4), 4).numpy()
    np.testing.assert_allclose(table[0], [0, 1, 0, 1], atol=1e-7)
    np.testing.assert_allclose(
        table[3], [np.sin(3), np.cos(3), np.sin(0.03), np.cos(0.03)], atol=1e-6
    )


def test_halves_are_tensor2tensors(shared):
    """Its `get_timing_signal_1d`, of even and odd widths, from any start."""
    folder = shared / "oracle"
    stored = {
        (64, 512, 0): np.load(folder / "timing_signal.npy")[0],
        **{
            tuple(map(int, name.split("_"))): signal.reshape(-1, signal.shape[-1])
            for name, signal in np.load(folder / "timing_signal_small.npz").items()
        },
    }
    rows = np.load(folder / "timing_signal_rows.npz")
    np.testing.assert_allclose(sinusoid_halves(rows["rows"], 512), rows["values"], atol=3e-4)
    for (length, d_model, start), signal in stored.items():
        ours = sinusoid_halves(np.arange(start, start + length), d_model)
        np.testing.assert_allclose(ours, signal, atol=2e-5)


@pytest.mark.parametrize("kind", ["sinusoidal", "sinusoidal_halves", "learned"])
def test_one_position_equals_its_place_in_the_whole(kind):
    layer = encoding(kind, max_positions=9)
    x = np.random.default_rng(3).normal(size=(2, 9, D)).astype(np.float32)
    whole = layer(x)
    for position in range(9):
        step = layer(x[:, position : position + 1], tf.constant([position]))
        np.testing.assert_allclose(step[:, 0], whole[:, position], atol=1e-6)


@pytest.mark.parametrize("kind", ["sinusoidal", "sinusoidal_halves", "learned"])
def test_positions_of_each_row(kind):
    layer = encoding(kind, max_positions=3)
    x = np.random.default_rng(3).normal(size=(2, 5, D)).astype(np.float32)
    positions = np.array([[0, 1, 2, 0, 1], [0, 0, 1, 2, 3]], np.int32)
    found = layer(x, positions)
    for row in range(2):
        np.testing.assert_allclose(found[row], layer(x[row], positions[row]), atol=1e-6)


def test_learned_positions():
    layer = encoding("learned", max_positions=5)
    assert layer.table.shape == (5, D)
    added = layer(np.zeros((1, 7, D), np.float32))[0]
    np.testing.assert_array_equal(added[:5], layer.table)
    np.testing.assert_array_equal(added[5:], [layer.table[4]] * 2)  # beyond the table: its last row


def test_sinusoids_have_no_weights():
    assert encoding("sinusoidal").variables == []


@pytest.mark.parametrize("position", [300, 1001])
def test_positions_are_exact_under_bfloat16(position):
    """bfloat16 holds whole numbers up to 256 only, so angles must be made in float32."""
    layer = PositionalEncoding(dtype="mixed_bfloat16")
    added = layer(tf.zeros((1, 1, D), "bfloat16"), tf.constant([position]))[0, 0]
    np.testing.assert_allclose(
        tf.cast(added, "float32"), oracle.positions(position + 1, D)[-1], atol=0.005
    )
