"""The columns of a stock Keras model: KerasHub's layers, and Keras' own loss and training step.

The softmax is tied to the embedding. Its layers have no label smoothing over sparse targets, so
that part of the loss is left out, to its advantage.
"""

import os

from answering import Job

JOB = Job(["training"], "xla")
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402


def make_model():
    """Ids in, logits out; compiled."""
    from keras_hub import layers

    h = JOB.hparams
    how = dict(dropout=h["dropout"], activation="relu")
    embedding = layers.TokenAndPositionEmbedding(
        JOB.vocabulary, h["max_length"], h["d_model"], tie_weights=True, mask_zero=True
    )
    inputs, shifted = (keras.Input([None], dtype="int32", name=name) for name in ("s", "t"))
    x = embedding(inputs)
    for _ in range(h["num_encoder_layers"]):
        x = layers.TransformerEncoder(h["d_ff"], h["num_heads"], **how)(x)
    y = embedding(shifted)
    for _ in range(h["num_decoder_layers"]):
        y = layers.TransformerDecoder(h["d_ff"], h["num_heads"], **how)(y, x)
    logits = embedding.token_embedding(y, reverse=True)
    model = keras.Model([inputs, shifted], logits)
    model.compile(
        keras.optimizers.Adam(1e-4, beta_2=0.98, epsilon=1e-9),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0),
        jit_compile=JOB.args.xla,
    )
    return model


def main():
    """Trains when asked to."""
    tf.config.threading.set_intra_op_parallelism_threads(JOB.args.threads)
    tf.config.threading.set_inter_op_parallelism_threads(JOB.args.threads)
    if JOB.args.precision != "float32":
        keras.mixed_precision.set_global_policy(f"mixed_{JOB.args.precision}")
    model = make_model()

    def update(inputs, targets):
        shifted = tf.pad(targets[:, :-1], [[0, 0], [1, 0]], constant_values=2)
        model.train_on_batch([tf.constant(inputs), shifted], tf.constant(targets))

    def product(m, k, n):
        factors = [tf.cast(tf.random.normal(s), JOB.args.precision) for s in ((m, k), (k, n))]
        return lambda: tf.matmul(*factors)[0, 0].numpy()

    JOB.train(update, product)


if __name__ == "__main__":
    main()
