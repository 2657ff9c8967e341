"""The columns of t2t_lite: a TrainStep under MirroredStrategy, and the decoder's search."""

from answering import Job

JOB = Job(["training", "decoding"], "xla", "apart")


def main():
    """Trains or searches when asked to."""
    from t2t_lite.malloc import keep_freed_memory
    from t2t_lite.runtime import start_tensorflow

    keep_freed_memory()
    decodes = JOB.args.part == "decoding"
    workers = start_tensorflow(JOB.args.threads, together=not (decodes or JOB.args.apart))
    import tensorflow as tf

    from t2t_lite.config import HParams

    def product(m, k, n):
        factors = [tf.cast(tf.random.normal(s), JOB.args.precision) for s in ((m, k), (k, n))]
        return lambda: tf.matmul(*factors)[0, 0].numpy()

    h = HParams().replace(**JOB.hparams)
    if decodes:
        JOB.decode(searches(h, workers), product)
    else:
        JOB.train(updates(h, workers), product)


def updates(h, workers):
    """-> a function that trains on a batch."""
    import tensorflow as tf

    from t2t_lite.models.transformer import Transformer
    from t2t_lite.training.step import POLICIES, TrainStep

    strategy, policy = tf.distribute.MirroredStrategy(["CPU:0"]), POLICIES[JOB.args.precision]
    with strategy.scope():
        model = Transformer(h, JOB.vocabulary, JOB.vocabulary, shared=True, dtype=policy)
        parts = dict(micro_batches=workers, workers=workers)
        step = TrainStep(model, h, strategy, xla=JOB.args.xla, **parts)

    return lambda inputs, targets: float(step(inputs, targets).loss.smoothed)


def searches(h, workers):
    """-> W -> a function of sources; each worker has its share of them."""
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np
    import tensorflow as tf

    from t2t_lite.decoding.search import Search, run_search
    from t2t_lite.models.transformer import Transformer

    model = Transformer(h, JOB.vocabulary, JOB.vocabulary, shared=True, dtype=JOB.args.precision)
    weights, pool = model.search_weights(), ThreadPoolExecutor(workers)
    any_size = [tf.TensorSpec(shape, tf.int32) for shape in ([None, None], [None, None], [None])]

    def make_search(beam):
        search = Search(beam, 0.6, 0, 1, None, False)
        run = tf.function(
            lambda *tensors: run_search(
                model, (0, 2), None, search, JOB.args.xla, weights, *tensors
            ),
            None if JOB.args.xla else any_size,
            autograph=False,
            jit_compile=JOB.args.xla,
        )

        def of_share(rows):
            free = np.zeros([len(rows), JOB.steps]), [JOB.steps] * len(rows)
            return run(*(tf.constant(array, tf.int32) for array in (rows, *free))).ids[:, 0].numpy()

        def found(sources):
            return np.concatenate(
                list(pool.map(of_share, np.array_split(sources, min(workers, len(sources)))))
            )

        return found

    return make_search


if __name__ == "__main__":
    main()
