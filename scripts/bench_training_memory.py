"""Compares `training.memory`'s estimates with the peak memory of updates, each in its own process.

python scripts/bench_training_memory.py [CASE ...]

A case is SET[:FIELD=VALUE],V,ROWS,SOURCE/TARGET,M,PRECISION: an hparams set, the symbols of its
vocabulary, the shape of a micro-batch, how many of them make an update. Default: those of
docs/results.md.
"""

import subprocess
import sys

CASES = """
base,37000,1,10/10,1,float32
base,37000,16,25/25,1,float32
base,37000,16,25/25,4,float32
base,37000,64,25/25,1,float32
base,37000,64,25/25,2,float32
base,37000,120,25/25,1,float32
base,37000,8,200/200,1,float32
base,37000,64,25/25,1,bfloat16
base,8000,64,25/25,1,float32
base,8000,64,25/25,2,float32
base,8000,12,250/250,1,float32
base,8000,64,25/25,2,bfloat16
big,8000,16,25/25,1,float32
small,8000,64,25/25,1,float32
small,8000,120,25/25,1,float32
small,8000,120,25/25,2,float32
small,8000,120,25/25,1,bfloat16
parsing_small,3000,16,100/200,1,float32
parsing_small,3000,16,100/200,2,float32
parsing_small,3000,8,250/256,1,float32
small:encoder_layer=restricted_self_attention,8000,8,600/25,1,float32
small:encoder_layer=recurrent,8000,8,600/25,1,float32
small:encoder_layer=convolution,8000,8,600/25,1,float32
""".split()


def main():
    """Prints a table: a row for each case."""
    print("| case | peak, MiB | estimate | update alone, MiB | estimate |")
    print("|---|---:|---:|---:|---:|", flush=True)
    for case in sys.argv[1:] or CASES:
        subprocess.run([sys.executable, __file__, "--measure", case], check=True)


def measure(case: str):
    """Prints the row of a case."""
    from t2t_lite.malloc import keep_freed_memory
    from t2t_lite.runtime import start_tensorflow

    keep_freed_memory()
    start_tensorflow()
    import numpy as np

    from t2t_lite import registry
    from t2t_lite.data.buckets import Bucket
    from t2t_lite.devices import make_strategy
    from t2t_lite.models.transformer import Transformer
    from t2t_lite.training.memory import TrainingMemory, peak_memory, used_memory
    from t2t_lite.training.step import POLICIES, TrainStep

    which, size, rows, lengths, cut, precision = case.split(",")
    size, rows, cut = int(size), int(rows), int(cut)
    bucket = Bucket(rows, *map(int, lengths.split("/")))
    registry.load_plugins()
    name, *changes = which.split(":")
    h = registry.hparams(name).override(["next_word=counted", *changes])
    memory = TrainingMemory(h, [size], precision)
    without = used_memory()
    strategy = make_strategy(None)
    with strategy.scope():
        model = Transformer(h, size, size, dtype=POLICIES[precision], name="transformer")
        step = TrainStep(model, h, strategy, micro_batches=cut)
    before = used_memory()
    random = np.random.default_rng(1)
    for _ in range(3):
        sides = bucket.source_length, bucket.target_length
        step(*(random.integers(2, size, [cut * rows, side]).astype(np.int32) for side in sides))
    peak, update = peak_memory(), memory.update(bucket, cut)
    figures = peak, without + memory.state + update, peak - before, update
    print(f"| {case} | " + " | ".join(f"{figure / 2**20:,.0f}" for figure in figures) + " |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2])
    else:
        main()
