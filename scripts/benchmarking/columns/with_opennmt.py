"""The column of OpenNMT-tf 2: its Transformer, its loss, its optimizer and its search.

An update is what its Trainer does to a batch, without the Trainer's sums of gradients.
"""

import numpy as np
import opennmt
import tensorflow as tf
from answering import Job

JOB = Job(["training", "decoding"])


def make_model(**params):
    """Initialised, as its Runner does it."""
    h = JOB.hparams
    symbols = JOB.args.folder / "symbols.txt"
    special = ["<blank>", "<s>", "</s>"]  # and one for what is unknown, which it adds
    names = special + [f"t{i}" for i in range(JOB.vocabulary - len(special) - 1)]
    symbols.write_text("\n".join(names) + "\n")
    model = opennmt.models.Transformer(
        num_layers=(h["num_encoder_layers"], h["num_decoder_layers"]),
        num_units=h["d_model"],
        num_heads=h["num_heads"],
        ffn_inner_dim=h["d_ff"],
        dropout=h["dropout"],
        attention_dropout=h["attention_dropout"],
        ffn_dropout=h["relu_dropout"],
        pre_norm=False,
        share_embeddings=opennmt.models.EmbeddingsSharingLevel.ALL,
    )
    both = {"source_vocabulary": str(symbols), "target_vocabulary": str(symbols)}
    model.initialize(both, params={"label_smoothing": h["label_smoothing"], **params})
    return model


def source(ids):
    """What the model takes: a dictionary."""
    return {"ids": ids, "length": tf.math.count_nonzero(ids, axis=1, dtype=tf.int32)}


def train():
    """-> a function that trains on a batch."""
    model = make_model()
    adam = opennmt.optimizers.make_optimizer("Adam", 1e-4, beta_2=0.98, epsilon=1e-9)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)] * 2)
    def step(inputs, targets):
        labels = source(targets)
        labels["ids_out"] = targets
        labels["ids"] = tf.pad(targets[:, :-1], [[0, 0], [1, 0]], constant_values=1)
        loss, gradients, *_ = model.compute_gradients(source(inputs), labels, adam)
        adam.apply_gradients(zip(gradients, model.trainable_weights))
        return loss

    return lambda *batch: float(step(*map(tf.constant, batch)))


def make_search(beam):
    """-> a function of sources; for each output 1 at each place that it has."""
    limits = dict.fromkeys(("maximum_decoding_length", "minimum_decoding_length"), JOB.steps)
    model = make_model(beam_width=beam, length_penalty=0.6, **limits)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def search(ids):
        _, predictions = model(source(ids))
        return predictions["length"][:, 0]

    return lambda sources: (
        np.arange(JOB.steps) < search(tf.constant(sources)).numpy()[:, None]
    ).astype(int)


def main():
    """Trains or searches when asked to."""
    tf.config.threading.set_intra_op_parallelism_threads(JOB.args.threads)
    tf.config.threading.set_inter_op_parallelism_threads(JOB.args.threads)

    def product(m, k, n):
        factors = [tf.random.normal(shape) for shape in ((m, k), (k, n))]
        return lambda: tf.matmul(*factors)[0, 0].numpy()

    if JOB.args.part == "decoding":
        JOB.decode(make_search, product)
    else:
        JOB.train(train(), product)


if __name__ == "__main__":
    main()
