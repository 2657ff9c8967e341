"""The columns of t2t_lite: a TrainStep under MirroredStrategy, as t2t-trainer makes it."""

import argparse
import json
import time
from pathlib import Path

STARTED = time.time()


def main():
    """Trains when asked to."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--precision")
    parser.add_argument("--xla", action="store_true")
    parser.add_argument("--packing", action="store_true")
    args = parser.parse_args()

    from t2t_lite.malloc import keep_freed_memory
    from t2t_lite.runtime import start_tensorflow

    keep_freed_memory()
    start_tensorflow(args.threads)
    import numpy as np
    import tensorflow as tf
    from answering import answer, rate

    from t2t_lite.config import HParams
    from t2t_lite.models.transformer import Transformer
    from t2t_lite.training.step import POLICIES, TrainStep

    work = json.loads((args.folder / "work.json").read_text())
    arrays = np.load(args.folder / "batches.npz")
    h, symbols = HParams().replace(**work["hparams"]), work["vocabulary"]
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope():
        model = Transformer(h, symbols, symbols, shared=True, dtype=POLICIES[args.precision])
        step = TrainStep(model, h, strategy, xla=args.xla)

    def update(inputs, targets):
        float(step(inputs, targets).loss.smoothed)

    def product(m, k, n):
        factors = [tf.cast(tf.random.normal(s), args.precision) for s in ((m, k), (k, n))]
        return lambda: tf.matmul(*factors)[0, 0].numpy()

    batches = [(arrays[f"{i}.0"], arrays[f"{i}.1"]) for i in range(len(arrays) // 2)]
    answer(
        STARTED,
        update,
        batches,
        lambda: rate(product, h.batch_tokens, h.d_model, h.d_ff, symbols),
    )


if __name__ == "__main__":
    main()
