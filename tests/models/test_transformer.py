"""The Transformer against NumPy, its cached step against the whole, its variables."""

from collections import Counter

import keras
import numpy as np
import numpy_transformer as oracle
import pytest
import tensorflow as tf
from layer_checks import assert_bfloat16, operations, product_types, randomise, twin, weights

from t2t_lite.config import HParams
from t2t_lite.layers.dropout import Dropout, DropoutSeeds
from t2t_lite.models.transformer import Transformer

POST = HParams(
    num_encoder_layers=2, num_decoder_layers=1, d_model=8, d_ff=12, num_heads=2, d_k=3, d_v=5,
    max_positions=9,
)  # fmt: skip
PRE = POST.replace(norm="pre", num_encoder_layers=1, num_decoder_layers=2)
LEARNED = POST.replace(positions="learned")
# Which symbols of the source begin words, and which of the target name them.
WORDS = (
    [symbol in (4, 5, 8) for symbol in range(13)],
    [symbol in (3, 6, 7, 9) for symbol in range(11)],
)
# hparams, symbols of source and target, whether shared, words
KINDS = {
    "post": (POST, 11, 11, True),
    "pre, odd d_model": (PRE.replace(d_model=7), 11, 11, True),
    "separate vocabularies": (POST, 13, 11, False),
    "learned positions": (LEARNED, 11, 11, True),
    "pre, separate, learned": (PRE.replace(positions="learned"), 10, 11, False),
    "next word given": (POST.replace(next_word="given"), 13, 11, False, WORDS),
    "tensor2tensor": (
        PRE.replace(
            d_model=7,
            positions="sinusoidal_halves",
            tie_softmax=False,
            share_embeddings=False,
            target_space=True,
        ),
        11,
        11,
        True,
    ),
    "restricted": (
        POST.replace(encoder_layer="restricted_self_attention", neighbourhood=7),
        11,
        11,
        True,
    ),
    "recurrent": (PRE.replace(encoder_layer="recurrent", d_model=7), 11, 11, True),
    "convolution": (POST.replace(encoder_layer="convolution", kernel_size=2), 11, 11, True),
    "softmax of its own": (POST.replace(tie_softmax=False), 11, 11, True),
    "source of its own": (POST.replace(share_embeddings=False), 11, 11, True),
}

INPUTS = np.array([[5, 7, 4, 9, 1], [8, 1, 0, 0, 0]], np.int32)
TARGETS = np.array([[3, 9, 9, 1], [6, 1, 0, 0]], np.int32)


def built(hparams, *sizes, **kwargs):
    return randomise(Transformer(hparams, *sizes, **{"name": "transformer", **kwargs}))


@pytest.fixture(scope="module", params=KINDS.values(), ids=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def model(kind):
    return built(*kind)


@pytest.fixture(scope="module")
def post():
    return built(*KINDS["post"])


def test_logits_equal_numpy(model, kind):
    hparams, _, target_size, *rest = kind
    logits = model(INPUTS, TARGETS)
    assert logits.shape == (2, 4, target_size) and logits.dtype == "float32"
    np.testing.assert_allclose(
        logits, oracle.transformer(INPUTS, TARGETS, weights(model), hparams, *rest), atol=2e-5
    )


def test_cached_steps_equal_the_whole(model):
    beams = np.random.default_rng(1).integers(2, 10, [2, 3, 6]).astype(np.int32)  # [B, W, T]
    whole = [model(INPUTS, beams[:, beam]).numpy() for beam in range(3)]
    memory, cache = model.start(model.search_weights(), INPUTS, 3, 8)
    ids = np.zeros([2, 3], np.int32)
    for position in range(6):
        logits, cache = model.step(
            model.search_weights(), ids, tf.constant(position), memory, cache
        )
        assert logits.dtype == "float32"
        for beam in range(3):
            np.testing.assert_allclose(logits[:, beam], whole[beam][:, position], atol=1e-5)
        ids = beams[:, :, position]


def test_memory_and_cache_are_by_sentence(post):
    memory, cache = post.start(post.search_weights(), INPUTS, 3, 8)
    assert {tensor.shape[0] for tensor in tf.nest.flatten((memory, cache))} == {2}


def test_cache_follows_its_beams(model):
    """Beams in another order, more than once, in a cache that grows: each goes on from its past."""
    random = np.random.default_rng(2)
    memory, cache = model.start(model.search_weights(), INPUTS, 3, 0)
    history = np.zeros([2, 3, 0], np.int32)  # [B, W, what each beam has written]
    last = np.zeros([2, 3], np.int32)
    for position in range(7):
        if position in (0, 3):
            cache = model.grow_cache(cache, 3 + position)
        logits, cache = model.step(
            model.search_weights(), last, tf.constant(position), memory, cache
        )
        for beam in range(3):
            targets = np.concatenate(
                [history[:, beam], np.full([2, 1], 9, np.int32)], axis=1
            )  # the last one is not seen
            np.testing.assert_allclose(logits[:, beam], model(INPUTS, targets)[:, -1], atol=1e-5)
        parents = random.integers(0, 3, [2, 3])
        cache = model.reorder_cache(cache, tf.constant(parents, tf.int32))
        last = random.integers(2, 10, [2, 3]).astype(np.int32)
        history = np.concatenate(
            [np.take_along_axis(history, parents[:, :, None], axis=1), last[:, :, None]], axis=2
        )


def attention_of_numpy(monkeypatch, model, kind) -> list[np.ndarray]:
    """[B, length, length] of each attention and head, in the order in which they are computed."""
    hparams, _, _, *rest = kind
    found, attend = [], oracle.attention

    def recording(queries, keys, values, *more):
        found.append(attend(queries, keys, np.eye(keys.shape[1]), *more))  # its weights
        return attend(queries, keys, values, *more)

    monkeypatch.setattr(oracle, "attention", recording)
    oracle.transformer(INPUTS, TARGETS, weights(model), hparams, *rest)
    return found


def test_attention_equals_numpy(monkeypatch, model, kind):
    """All three kinds, float32 [B, H, ., .] of each layer; none on padding, nor to the right."""
    found = model.attention(INPUTS, TARGETS)
    by_decoder_layer = [layer for pair in zip(found.decoder, found.cross) for layer in pair]
    heads = [
        head for layer in (*found.encoder, *by_decoder_layer) for head in np.moveaxis(layer, 1, 0)
    ]
    for head, expected in zip(heads, attention_of_numpy(monkeypatch, model, kind), strict=True):
        assert head.dtype == np.float32
        np.testing.assert_allclose(head, expected, atol=1e-5)
        np.testing.assert_allclose(head.sum(axis=-1), 1, atol=1e-6)
    for layer in (*found.encoder, *found.cross):
        assert not np.any(layer[1, :, :, 2:])
    for layer in found.decoder:
        assert not np.any(np.triu(layer, 1))


@pytest.mark.parametrize("xla", [False, True])
def test_attention_in_a_graph(post, xla):
    in_graph = tf.function(post.attention, jit_compile=xla)(INPUTS, TARGETS)
    tf.nest.map_structure(
        lambda one, other: np.testing.assert_allclose(one, other, atol=1e-6),
        in_graph,
        post.attention(INPUTS, TARGETS),
    )


def test_a_symbol_changes_only_what_follows(post):
    logits = post(INPUTS, TARGETS).numpy()
    for position in range(4):
        changed = TARGETS.copy()
        changed[:, position] = 10
        difference = np.abs(post(INPUTS, changed).numpy() - logits).max(axis=(0, 2))
        assert np.all(difference[: position + 1] == 0) and np.all(difference[position + 1 :] > 1e-4)


def test_padding_and_neighbours_change_nothing(post):
    logits = post(INPUTS, TARGETS).numpy()
    padded = post(np.pad(INPUTS, [(0, 1), (0, 3)]), np.pad(TARGETS, [(0, 1), (0, 2)])).numpy()
    assert np.all(np.isfinite(padded))  # in the row of padding alone, too
    np.testing.assert_allclose(padded[:2, :4], logits, atol=1e-5)
    np.testing.assert_allclose(post(INPUTS[1:, :2], TARGETS[1:, :2])[0], logits[1, :2], atol=1e-5)


def test_dropout_only_with_seeds(post):
    one, same, other = (
        post(INPUTS, TARGETS, seeds=DropoutSeeds(tf.constant([1, n]))).numpy() for n in (2, 2, 3)
    )
    np.testing.assert_array_equal(one, same)
    assert np.any(one != other) and np.any(one != post(INPUTS, TARGETS).numpy())


def test_each_dropout_has_its_rate_and_its_own_seed(monkeypatch):
    """Embeddings + positions, sub-layers, attentions, ReLUs (section 5.4 and Figure 1)."""
    drawn = []

    def call(dropout, x, seeds=None):
        drawn.append((dropout.rate, *seeds.next().numpy()))
        return x

    monkeypatch.setattr(Dropout, "call", call)
    model = Transformer(POST.replace(dropout=0.1, attention_dropout=0.2, relu_dropout=0.3), 11, 11)
    model(INPUTS, TARGETS, seeds=DropoutSeeds(tf.constant([1, 2])))
    encoder, decoder = 2, 1
    assert Counter(rate for rate, *_ in drawn) == {
        0.1: 2 * encoder + 3 * decoder + 2, 0.2: encoder + 2 * decoder, 0.3: encoder + decoder
    }  # fmt: skip
    assert len({tuple(seed) for _, *seed in drawn}) == len(drawn)


def test_all_variables_exist_after_construction(kind):
    model = Transformer(*kind)
    before = list(map(id, model.variables))
    model(INPUTS, TARGETS)
    model.step(
        model.search_weights(),
        np.zeros([2, 2], np.int32),
        0,
        *model.start(model.search_weights(), INPUTS, 2, 4),
    )
    assert list(map(id, model.variables)) == before and model.built
    assert list(map(id, model.trainable_variables)) == before


def test_each_variable_has_its_own_path(model):
    paths = [variable.path for variable in model.variables]
    assert len(set(paths)) == len(paths)
    assert all(path.startswith("transformer/") for path in paths)


def test_embeddings_are_one_matrix_only_where_vocabularies_are_shared(model, kind):
    _, source_size, target_size, shared, *_ = kind
    h = model.hparams
    embeddings = {
        v.path.split("/")[1]: v.shape for v in model.variables if v.path.endswith("embeddings")
    }
    if shared and h.share_embeddings:
        expected = {"embedding": (target_size, h.d_model)}
    else:
        expected = {
            "source_embedding": (source_size, h.d_model),
            "target_embedding": (target_size, h.d_model),
        }
    if not h.tie_softmax:
        expected["softmax"] = (target_size, h.d_model)
    assert embeddings == expected


def test_configuration(model):
    np.testing.assert_array_equal(twin(model)(INPUTS, TARGETS), model(INPUTS, TARGETS))


@pytest.mark.parametrize(
    "kind",
    [
        *("post", "pre, separate, learned", "next word given"),
        *("restricted", "recurrent", "convolution"),
    ],
)
def test_bfloat16(kind):
    hparams, _, _, *rest = KINDS[kind]
    model = built(*KINDS[kind], dtype="mixed_bfloat16")
    assert_bfloat16(model, model, INPUTS, TARGETS)
    logits = model(INPUTS, TARGETS)
    assert logits.dtype == "float32"
    expected = oracle.transformer(INPUTS, TARGETS, weights(model), hparams, *rest)
    np.testing.assert_allclose(logits, expected, atol=0.1 * np.abs(expected).max())

    def first_step(inputs):
        return model.step(
            model.search_weights(),
            tf.zeros([2, 3], tf.int32),
            tf.constant(0),
            *model.start(model.search_weights(), inputs, 3, 4),
        )[0]

    assert product_types(operations(first_step, INPUTS)) == {"bfloat16"}
    assert first_step(INPUTS).dtype == "float32"


def test_no_operation_of_xla_alone(model):
    """A graph that is exported, of any batch, must run where XLA's are not linked in."""
    batch = tf.TensorSpec([None, INPUTS.shape[1]], tf.int32)

    def decode(inputs, position):
        return model.step(
            model.search_weights(),
            tf.zeros([tf.shape(inputs)[0], 3], tf.int32),
            position,
            *model.start(model.search_weights(), inputs, 3, 4),
        )

    for kinds in (operations(decode, batch, tf.constant(1)), operations(model, INPUTS, TARGETS)):
        assert kinds and not [name for name, _ in kinds if name.startswith("Xla")]


def parameters(hparams, vocabulary):
    """Counted without filling a single weight: big would take 0.9 GB."""
    with keras.StatelessScope(initialize_variables=False):
        count = Transformer(hparams, vocabulary, vocabulary, shared=True).count_params()
    keras.utils.clear_session()  # forgets the variables that wait for their values
    return count


def test_parameters_by_hand():
    attention, feed_forward, norm = 4 * 512 * 512, 2 * 512 * 2048 + 2048 + 512, 2 * 512
    layers = 6 * (attention + feed_forward + 2 * norm) + 6 * (
        2 * attention + feed_forward + 3 * norm
    )
    assert parameters(HParams(), 37_000) == 37_000 * 512 + layers == 63_045_632
