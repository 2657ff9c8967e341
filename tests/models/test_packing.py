"""Several pairs in a row: each has the states, the loss and the gradients that it has alone."""

import numpy as np
import pytest
import tensorflow as tf
from layer_checks import randomise

from t2t_lite.config import HParams
from t2t_lite.layers.segments import segmentation
from t2t_lite.models.transformer import Transformer
from t2t_lite.training.loss import label_smoothed_cross_entropy

V = 23
POST = HParams(
    num_encoder_layers=2, num_decoder_layers=2, d_model=16, d_ff=24, num_heads=2, d_k=6, d_v=10,
)  # fmt: skip
PRE = POST.replace(norm="pre")
KINDS = {
    "post": (POST, V, V, True),
    "pre, separate, learned": (PRE.replace(positions="learned"), V, V, False),
    # Positions that restart stay below the table's end; those of whole rows would not.
    "few positions": (POST.replace(positions="learned", max_positions=9), V, V, True),
    "tensor2tensor": (
        PRE.replace(
            positions="sinusoidal_halves", tie_softmax=False, share_embeddings=False,
            target_space=True,
        ),
        V,
        V,
        True,
    ),
}  # fmt: skip
# Of each row the lengths of its pairs, inputs and targets; some have one symbol, a row is empty.
ROWS = [[(4, 7), (1, 3), (9, 5)], [(8, 8), (8, 2)], [(3, 1)], []]
S, T = 17, 16


def drawn():
    """[[(input, target), ...], ...], each ending in EOS."""
    random = np.random.default_rng(3)
    return [
        [tuple([*random.integers(2, V, n - 1), 1] for n in lengths) for lengths in row]
        for row in ROWS
    ]


def packed(rows):
    """-> int32 [B, S], [B, T]."""
    sides = [np.zeros([len(rows), length], np.int32) for length in (S, T)]
    for number, row in enumerate(rows):
        for side, sequences in zip(sides, zip(*row)):
            together = sum(sequences, [])
            side[number, : len(together)] = together
    return sides


def alone(rows):
    """The same pairs, each in a row of its own."""
    return packed([[pair] for row in rows for pair in row])


def segments(sides):
    return [segmentation(side, 1) for side in sides]


def by_pair(states, targets):
    """The states of each pair's targets, in order."""
    return np.concatenate([row[ids != 0] for row, ids in zip(np.array(states), targets)])


@pytest.fixture(scope="module", params=KINDS.values(), ids=KINDS)
def model(request):
    return randomise(Transformer(*request.param, name="transformer"))


def test_states_are_those_of_each_pair_alone(model):
    together, single = packed(drawn()), alone(drawn())
    states = model.states(*together, segments=segments(together))
    assert np.all(np.isfinite(states))
    expected = by_pair(model.states(*single), single[1])
    np.testing.assert_allclose(by_pair(states, together[1]), expected, atol=1e-5)
    assert len(expected) == 26 and np.abs(expected).max() > 0.5
    without = by_pair(model.states(*together), together[1])  # which is what segments are for
    assert np.abs(without - expected).max() > 0.1


def loss_and_gradients(model, sides, segments=None):
    variables = [variable.value for variable in model.trainable_variables]
    with tf.GradientTape() as tape:
        states = model.states(*sides, segments=segments)
        loss = label_smoothed_cross_entropy(states, model.softmax.embeddings, sides[1], 0.1)
    gradients = tape.gradient(loss.smoothed, variables)
    return loss, [tf.convert_to_tensor(gradient).numpy() for gradient in gradients]


def test_loss_and_gradients_are_those_of_the_pairs_alone(model):
    together, single = packed(drawn()), alone(drawn())
    loss, gradients = loss_and_gradients(model, together, segments(together))
    expected, plain = loss_and_gradients(model, single)
    assert loss.tokens == expected.tokens == 26
    for name in "smoothed", "nll", "correct":
        assert float(getattr(loss, name)) == pytest.approx(float(getattr(expected, name)), rel=1e-5)
    for found, wanted in zip(gradients, plain, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-5 * max(1, np.abs(wanted).max()))


def test_a_pair_changes_only_its_own(model):
    """On either side, and also where it gets longer or shorter."""
    together = packed(drawn())
    before = np.array(model.states(*together, segments=segments(together)))
    others = [*range(7), *range(10, 15)]  # of the first row's targets: those of pairs 1 and 3
    for change in (([2] * 1 + [1], [5, 6, 1]), ([1], [7, 8, 1])):
        rows = drawn()
        rows[0][1] = change
        changed = packed(rows)
        after = np.array(model.states(*changed, segments=segments(changed)))
        np.testing.assert_allclose(after[0, others], before[0, others], atol=1e-6)
        np.testing.assert_allclose(after[1:], before[1:], atol=1e-6)
        assert np.abs(after[0, 7:10] - before[0, 7:10]).max() > 1e-3


@pytest.mark.parametrize("xla", [False, True])
def test_in_a_graph(xla):
    model = randomise(Transformer(*KINDS["post"]))
    together = packed(drawn())

    @tf.function(jit_compile=xla)
    def states(*sides):
        return model.states(*sides, segments=segments(sides))

    expected = model.states(*together, segments=segments(together))
    np.testing.assert_allclose(states(*together), expected, atol=1e-5)
