"""One update: the same however a batch is cut, on how many devices, with XLA or without.

Also float16, dropout and traces.

The two devices are logical ones of the CPU, see the tests' conftest.py.
"""

import functools
import re
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from layer_checks import operations, product_types, randomise

from t2t_lite.config import HParams
from t2t_lite.devices import choose_xla, make_strategy
from t2t_lite.models.transformer import Transformer
from t2t_lite.training.step import POLICIES, TrainStep, cut

N, S, T, V = 8, 7, 6, 20  # N: rows of the whole batch
HPARAMS = HParams(
    num_encoder_layers=1, num_decoder_layers=1, d_model=16, d_ff=24, num_heads=2, d_k=8, d_v=8,
    dropout=0.0, schedule="constant", learning_rate=1e-3, warmup_steps=0,
)  # fmt: skip


def batch(seed):
    """inputs [N, S], targets [N, T]; rows get shorter, the last is padding as at an epoch's end."""
    random = np.random.default_rng(seed)
    sides = []
    for length in (S, T):
        ids = random.integers(2, V, (N, length)).astype(np.int32)
        for row, used in enumerate(np.linspace(length, 1, N - 1).astype(int)):
            ids[row, used - 1] = 1
            ids[row, used:] = 0
        ids[-1] = 0
        sides.append(ids)
    return sides


def new_step(replicas=1, *, precision="float32", hparams=HPARAMS, **options):
    """-> (model, step, strategy)."""
    strategy = make_strategy(replicas)
    with strategy.scope():
        model = randomise(
            Transformer(hparams, V, V, shared=True, dtype=POLICIES[precision], name="transformer")
        )
        return model, TrainStep(model, hparams, strategy, **options), strategy


def copies(strategy, variable):
    """A variable's value on each replica."""
    return [copy.numpy() for copy in strategy.experimental_local_results(variable)]


def everything(strategy, model, step):
    """{name: [value on each replica]} of all that only an update that is applied changes."""
    slots = {
        name: value
        for name, value in step.state().items()
        if name not in ("step", "loss_scale", "good_updates")
    }
    weights = {variable.path: variable.value for variable in model.variables}
    return {name: copies(strategy, variable) for name, variable in {**weights, **slots}.items()}


class Trained(NamedTuple):
    gradients: list  # of the first update as the optimiser gets them, one array a variable
    losses: list
    weights: list


def record_gradients(model, step, strategy):
    """-> variables that hold, after each update, the gradients that the optimiser was given."""
    with strategy.scope():
        recorded = [
            tf.Variable(tf.zeros(v.shape), trainable=False) for v in model.trainable_variables
        ]
    apply = step.optimizer.apply

    def record_and_apply(gradients, finite):
        for variable, gradient in zip(recorded, gradients):
            variable.assign(gradient)
        return apply(gradients, finite)

    step.optimizer.apply = record_and_apply
    return recorded


def train(replicas, micro_batches, xla=False, updates=20, spoil=None) -> Trained:
    """Trains on batches of unequal token counts; `spoil`, a function of the step, breaks it."""
    model, step, strategy = new_step(replicas, xla=xla, micro_batches=micro_batches)
    reduced = record_gradients(model, step, strategy)
    if spoil:
        spoil(step)
    losses = []
    for update in range(updates):
        inputs, targets = batch(update % 4)
        report = step(inputs, targets)
        assert report.applied and (spoil or report.loss.tokens == np.count_nonzero(targets))
        losses.append(float(report.loss.smoothed / report.loss.tokens))
        if update == 0:
            first = [copies(strategy, variable) for variable in reduced]
    weights = [copies(strategy, variable.value) for variable in model.variables]
    assert step.step == updates
    for first_copy, *others in first + weights:
        for other in others:
            np.testing.assert_array_equal(other, first_copy)
    return Trained([copies_[0] for copies_ in first], losses, [copies_[0] for copies_ in weights])


@functools.cache
def one_device() -> Trained:
    return train(1, 1)


def gradient_difference(a, b):
    """Over all variables, the largest difference relative to the largest element."""
    return max(np.max(np.abs(x - y)) / np.max(np.abs(y)) for x, y in zip(a, b, strict=True))


def weight_difference(a, b):
    return max(np.max(np.abs(x - y)) for x, y in zip(a, b, strict=True))


def test_token_counts_of_the_replicas_are_unequal():
    for seed in range(4):
        first, second = cut(batch(seed)[1], 2, 1)
        assert np.count_nonzero(first) > 2 * np.count_nonzero(second) > 0


def test_one_device_has_the_gradients_of_the_plain_formula():
    model, (inputs, targets) = new_step()[0], batch(0)
    variables = [variable.value for variable in model.trainable_variables]
    with tf.GradientTape() as tape:
        log_probs = tf.nn.log_softmax(model(inputs, targets))
        wanted = tf.one_hot(targets, V) * 0.9 + 0.1 / V
        real = tf.cast(targets != 0, tf.float32)
        loss = -tf.reduce_sum(tf.reduce_sum(wanted * log_probs, axis=-1) * real) / tf.reduce_sum(
            real
        )
    plain = [tf.convert_to_tensor(gradient).numpy() for gradient in tape.gradient(loss, variables)]
    assert gradient_difference(one_device().gradients, plain) < 1e-5
    assert one_device().losses[0] == pytest.approx(float(loss), rel=1e-5)


def test_the_loss_falls():
    losses = one_device().losses
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize(
    "replicas, micro_batches, xla",
    [
        (1, 4, False),
        (2, 2, False),
        *(
            pytest.param(*how, marks=pytest.mark.thorough)
            for how in ((1, 2, False), (1, 3, False), (2, 1, False), (2, 2, True))
        ),
    ],
)
def test_however_a_batch_is_cut(replicas, micro_batches, xla):
    trained = train(replicas, micro_batches, xla)
    assert gradient_difference(trained.gradients, one_device().gradients) < 1e-5
    np.testing.assert_allclose(trained.losses, one_device().losses, rtol=1e-4)
    assert weight_difference(trained.weights, one_device().weights) < 1e-4


def mean_of_replicas(step):
    """Each replica divides by its own count, and the means are averaged."""
    right = step.gradients

    def wrong(*arguments):
        loss, gradients = right(*arguments)
        return loss._replace(tokens=tf.constant(1.0)), [
            gradient / loss.tokens for gradient in gradients
        ]

    step.gradients = wrong


def first_micro_batch_alone(step):
    right = step.gradients
    step.gradients = lambda inputs, targets, *rest: right(inputs[:1], targets[:1], *rest)


def one_replica_alone(step):
    right = step.gradients

    def wrong(*arguments):
        me = tf.distribute.get_replica_context().replica_id_in_sync_group
        return tf.nest.map_structure(
            lambda value: value * tf.cast(me == 1, value.dtype), right(*arguments)
        )

    step.gradients = wrong


@pytest.mark.thorough
@pytest.mark.parametrize(
    "spoil, replicas, micro_batches",
    [(mean_of_replicas, 2, 1), (one_replica_alone, 2, 1), (first_micro_batch_alone, 1, 2)],
)
def test_a_wrong_reduction_is_detected(spoil, replicas, micro_batches):
    """Without this, the tests above might compare what can't differ."""
    trained = train(replicas, micro_batches, spoil=spoil)
    assert gradient_difference(trained.gradients, one_device().gradients) > 0.01
    assert weight_difference(trained.weights, one_device().weights) > 2e-4


def slices(micro_batches=1):
    """Arguments of `step.gradients`: one replica's share, a seed, a loss scale."""
    inputs, targets = (tf.constant(cut(side, 1, micro_batches)[0]) for side in batch(0))
    return inputs, targets, tf.constant([1, 0]), tf.constant(1.0)


def must_compile(step, strategy):
    """Whether a function that XLA must compile is called in the graph of a whole update."""
    shares = [
        strategy.experimental_distribute_values_from_function(lambda _, side=side: side)
        for side in slices()[:2]
    ]
    graph = step.program(*shares).get_concrete_function().graph.as_graph_def()
    called = {
        node.attr["f"].func.name for node in graph.node if node.op.endswith("PartitionedCall")
    }
    compiled = [f.signature.name for f in graph.library.function if f.attr["_XlaMustCompile"].b]
    return bool(called.intersection(compiled))


def test_xla_off_compiles_nothing_and_float32_is_float32():
    xla, why = choose_xla("off")
    assert not xla and "off" in why
    _, step, strategy = new_step(xla=xla)
    assert not must_compile(step, strategy)
    assert product_types(operations(step.gradients, *slices())) == {"float32"}


def test_xla_on_compiles_forward_and_gradients_with_bfloat16_products():
    xla, why = choose_xla("on")
    assert xla and "on" in why
    model, step, strategy = new_step(xla=xla, precision="bfloat16")
    assert must_compile(step, strategy)
    assert step.gradients.get_concrete_function(*slices()).function_def.attr["_XlaMustCompile"].b
    program = step.gradients.experimental_get_compiler_ir(*slices())(stage="hlo")
    products = re.findall(r"= (\w+)\[[^=]* dot\(", program)
    # Forward: 4 projections and 2 products in each of 3 attentions, 2 in each of 2 feed-forward
    # networks, the logits. Each has two more in the gradient.
    assert len(products) == 3 * (3 * (4 + 2) + 2 * 2 + 1) and set(products) == {"bf16"}
    assert {variable.dtype for variable in step.optimizer.slots.values()} == {tf.float32}
    assert {variable.value.dtype for variable in model.variables} == {tf.float32}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["restricted_self_attention", "recurrent", "convolution"])
def test_every_layer_type_trains_cut_with_xla_and_in_bfloat16(kind):
    hparams = HPARAMS.replace(encoder_layer=kind, neighbourhood=3)

    def losses(pieces=1, **options):
        _, step, _ = new_step(pieces, micro_batches=pieces, hparams=hparams, **options)
        reports = [step(*batch(0)) for _ in range(5)]
        return [float(report.loss.smoothed / report.loss.tokens) for report in reports]

    whole = losses()
    assert whole[-1] < whole[0]
    np.testing.assert_allclose(losses(2, xla=True), whole, rtol=1e-4)
    np.testing.assert_allclose(losses(xla=True, precision="bfloat16"), whole, rtol=0.02)


def packed(sides):
    """The pairs of a batch [N, S], [N, T], in order, two in a row, [N / 2, 2 S], [N / 2, 2 T]."""
    rows = [[ids[ids != 0] for ids in side] for side in sides]
    both = [[np.concatenate(two) for two in zip(side[::2], side[1::2])] for side in rows]
    widths = 2 * S, 2 * T
    return [
        np.stack([np.pad(row, [0, width - len(row)]) for row in side]).astype(np.int32)
        for width, side in zip(widths, both)
    ]


@pytest.mark.parametrize(
    "replicas, micro_batches, xla",
    [(1, 1, False), pytest.param(2, 2, True, marks=pytest.mark.thorough)],
)
def test_packed_rows_have_the_updates_of_single_ones(replicas, micro_batches, xla):
    packing = HPARAMS.replace(packing=True)
    options = dict(hparams=packing, micro_batches=micro_batches, xla=xla)
    model, step, strategy = new_step(replicas, **options)
    reduced, losses = record_gradients(model, step, strategy), []
    for update in range(20):
        report = step(*packed(batch(update % 4)))
        losses.append(float(report.loss.smoothed / report.loss.tokens))
        if update == 0:
            gradients = [copies(strategy, variable)[0] for variable in reduced]
    assert gradient_difference(gradients, one_device().gradients) < 1e-5
    np.testing.assert_allclose(losses[:1], one_device().losses[:1], rtol=1e-5)
    np.testing.assert_allclose(losses, one_device().losses, rtol=1e-4)


@pytest.mark.thorough
def test_float16_overflow_on_the_second_replica_alone_changes_nothing_on_either():
    model, step, strategy = new_step(2, precision="float16")
    assert step.loss_scale.numpy() == 2.0**15
    step.loss_scale.assign(2.0**12)
    inputs, targets = (np.full((16, length), 5, np.int32) for length in (S, T))
    targets[:8] = 0
    targets[0, 0] = 5  # the first replica has one symbol, the second 48, whose gradients add up
    for replica, finite in enumerate((True, False)):
        arguments = (tf.constant(cut(side, 2, 1)[replica]) for side in (inputs, targets))
        _, gradients = step.gradients(*arguments, tf.constant([1, 0]), step.loss_scale.read_value())
        assert all(np.all(np.isfinite(gradient)) for gradient in gradients) == finite

    before, scale = everything(strategy, model, step), 2.0**12
    for number in range(1, 20):
        report = step(inputs, targets)
        if report.applied:
            break
        assert not report.failed and report.loss_scale == scale
        scale /= 2
        assert copies(strategy, step.loss_scale) == [scale, scale]
        assert step.step == number  # it counts batches, applied or not
        for name, now in everything(strategy, model, step).items():
            for old, new in zip(before[name], now):
                np.testing.assert_array_equal(new, old, err_msg=name)
    assert report.applied and scale < 2.0**12 and step.step == number
    assert copies(strategy, step.loss_scale) == [scale, scale]
    assert copies(strategy, step.good_updates) == [1, 1]
    for name, (first, second) in everything(strategy, model, step).items():
        np.testing.assert_array_equal(first, second, err_msg=name)
        assert name.endswith("/beta") or np.any(first != before[name][0]), name


def test_float16_scale_doubles_after_many_good_updates():
    _, step, _ = new_step(precision="float16")
    step.loss_scale.assign(4.0)
    step.good_updates.assign(1998)
    inputs, targets = batch(0)
    for scale, good in ((4.0, 1999), (8.0, 0), (8.0, 1)):
        assert step(inputs, targets).applied
        assert (step.loss_scale.numpy(), step.good_updates.numpy()) == (scale, good)


def test_float16_gradients_are_those_of_float32_without_the_scale():
    model, step, strategy = new_step(precision="float16")
    reduced = record_gradients(model, step, strategy)
    step.loss_scale.assign(64.0)
    assert step(*batch(0)).applied
    assert (
        gradient_difference([gradient.numpy() for gradient in reduced], one_device().gradients)
        < 0.05
    )


DROPPING = HPARAMS.replace(dropout=0.5)


def test_each_replica_and_step_has_its_own_dropout():
    _, step, strategy = new_step(2, hparams=DROPPING)
    with strategy.scope():
        recorded = tf.Variable(0.0, trainable=False)
    right = step.gradients

    def record(*arguments):
        loss, gradients = right(*arguments)
        recorded.assign(loss.smoothed)
        return loss, gradients

    step.gradients = record
    step.optimizer.apply = lambda gradients, finite: tf.constant(0.0)  # the weights stay
    inputs, targets = (np.concatenate([side] * 2) for side in batch(0))  # the same on both
    losses = []
    for update in (0, 1, 0):
        step.optimizer.step.assign(update)
        step(inputs, targets)
        losses += copies(strategy, recorded)
    assert len(set(losses[:4])) == 4
    assert losses[4:] == losses[:2]


def test_each_micro_batch_has_its_own_dropout():
    """Of three equal micro-batches only one has targets, so the loss is its own."""
    _, step, _ = new_step(hparams=DROPPING)
    inputs, targets, *rest = slices()
    losses = []
    for place in (0, 1, 2, 0):
        alone = np.zeros((3, N, T), np.int32)
        alone[place] = targets[0]
        losses.append(
            float(
                step.gradients(tf.repeat(inputs, 3, axis=0), tf.constant(alone), *rest)[0].smoothed
            )
        )
    assert len(set(losses[:3])) == 3
    assert losses[3] == losses[0]


@pytest.mark.thorough
def test_the_same_seed_gives_the_same_losses():
    def losses(seed):
        _, step, _ = new_step(hparams=DROPPING, seed=seed)
        return [float(step(*batch(update)).loss.smoothed) for update in range(4)]

    first = losses(1)
    assert losses(1) == first
    assert not set(losses(2)) & set(first)


def traces(step):
    return step.program().experimental_get_tracing_count()


@pytest.mark.parametrize("replicas, micro_batches", [(1, 1), (1, 4), (2, 2)])
def test_all_shapes_share_one_trace(replicas, micro_batches):
    _, step, _ = new_step(replicas, micro_batches=micro_batches)
    for rows, source, target in ((4, 5, 6), (2, 8, 7), (1, 3, 9), (3, 9, 2)):
        report = step(np.full((rows, source), 3, np.int32), np.full((rows, target), 4, np.int32))
        assert report.loss.tokens == rows * target
    assert traces(step) == 1


@pytest.mark.parametrize("micro_batches", [1, 4])
def test_report(micro_batches):
    _, step, _ = new_step(hparams=HPARAMS.replace(warmup_steps=4), micro_batches=micro_batches)
    inputs, targets = batch(0)
    reports = [step(inputs, targets) for _ in range(5)]
    np.testing.assert_allclose(
        [r.learning_rate for r in reports], np.array([0.25, 0.5, 0.75, 1, 1]) * 1e-3, rtol=1e-6
    )
    assert {float(r.loss.tokens) for r in reports} == {np.count_nonzero(targets)}
    assert all(0 <= r.loss.correct <= r.loss.tokens and r.loss.nll > 0 for r in reports)
    assert step.step == 5


def test_trying_out_changes_nothing():
    model, step, strategy = new_step(precision="float16", hparams=DROPPING)
    inputs, targets = batch(0)
    before = everything(strategy, model, step), step.loss_scale.numpy(), step.step
    for _ in range(2):
        assert step.try_out(inputs, targets).loss.tokens == np.count_nonzero(targets)
    after = everything(strategy, model, step), step.loss_scale.numpy(), step.step
    assert before[1:] == after[1:]
    for name, values in before[0].items():
        np.testing.assert_array_equal(after[0][name], values, err_msg=name)
    assert step(inputs, targets) and traces(step) == 1


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_what_is_not_finite_changes_nothing(precision):
    model, step, strategy = new_step(precision=precision)
    inputs, targets = batch(0)
    assert not step(inputs, targets).failed
    bias = model.variables[0].value
    bias.assign(tf.fill(bias.shape, np.nan))
    before = everything(strategy, model, step)
    report = step(inputs, targets)
    assert report.failed and not report.applied and step.step == 2
    for name, values in everything(strategy, model, step).items():
        np.testing.assert_array_equal(values, before[name], err_msg=name)


def test_clipping_by_norm():
    _, free, _ = new_step()
    norm = float(free(*batch(0)).gradient_norm)
    plain = np.sqrt(sum(np.sum(np.square(g)) for g in one_device().gradients))
    assert norm == pytest.approx(plain, rel=1e-5)
    for bound, length in ((norm / 4, norm / 4), (norm * 4, norm)):
        model, step, strategy = new_step(hparams=HPARAMS.replace(clip_norm=bound))
        given = record_gradients(model, step, strategy)
        assert float(step(*batch(0)).gradient_norm) == pytest.approx(norm, rel=1e-5)
        clipped = np.sqrt(sum(np.sum(np.square(gradient)) for gradient in given))
        assert clipped == pytest.approx(length, rel=1e-5)


@pytest.mark.parametrize("replicas, micro_batches, rows", [(1, 1, 8), (2, 3, 2), (3, 3, 1)])
def test_cut_pads_with_empty_rows(replicas, micro_batches, rows):
    inputs, _ = batch(0)
    parts = cut(inputs, replicas, micro_batches)
    assert parts.shape == (replicas, micro_batches, rows, S)
    np.testing.assert_array_equal(parts.reshape(-1, S)[:N], inputs)
    assert not parts.reshape(-1, S)[N:].any()
