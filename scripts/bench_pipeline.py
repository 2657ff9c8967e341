"""Measures the input pipeline: pairs/s from text files to padded batches, with tokenisation.

python scripts/bench_pipeline.py --input train.en.gz --target train.de.gz --data_dir DIR
"""

import argparse
import os
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def main():
    """Prints how long each part takes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--input", required=True, help="line-aligned text, plain or .gz")
    parser.add_argument("--target", required=True, help="line-aligned text, plain or .gz")
    parser.add_argument("--data_dir", required=True, help="where the prepared corpus goes")
    parser.add_argument("--vocab_size", type=int, default=8_000)
    parser.add_argument("--batch_tokens", type=int, default=4_096)
    parser.add_argument("--max_length", type=int, default=256)
    parser.add_argument("--num_buckets", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=3, help="measured after one for warming up")
    args = parser.parse_args()

    from t2t_lite.data.buckets import fit_buckets
    from t2t_lite.data.corpus import Mix
    from t2t_lite.data.corpus_writer import write_corpus
    from t2t_lite.data.sources import TextFiles

    started = time.perf_counter()
    corpus = write_corpus(TextFiles(args.input, args.target), args.data_dir, "bench")
    seconds = time.perf_counter() - started
    print(
        f"prepared {len(corpus):,} pairs in {seconds:.1f} s: {len(corpus) / seconds:,.0f} pairs/s"
    )
    mix = Mix([corpus], [1.0])

    from t2t_lite.data.pipeline import TrainingBatches, sample_lengths
    from t2t_lite.data.tokenizer import Vocabularies, Vocabulary

    texts = (text.decode() for pair in mix.sample(500_000, 1) for text in pair)
    vocabulary = Vocabulary.train(texts, args.vocab_size)
    print(f"vocabulary after {time.perf_counter() - started:.1f} s")
    vocabularies = Vocabularies(vocabulary, vocabulary, shared=True)
    shape = dict(replicas=1, micro_batches=1, max_length=args.max_length)
    lengths = sample_lengths(mix, vocabularies, seed=1)
    buckets = fit_buckets(
        lengths, batch_tokens=args.batch_tokens, num_buckets=args.num_buckets, **shape
    )
    for bucket in buckets:
        print(bucket)

    measure(TrainingBatches(mix, vocabularies, buckets, seed=1, **shape), len(mix), args.epochs)


def measure(stream, pairs: int, epochs: int) -> None:
    """Prints padding and speed of some epochs, each of so many pairs."""
    padded = tokens = epoch = 0
    rates, busy = [], []
    started, cpu = time.perf_counter(), time.process_time()
    for batch in stream:
        if batch.position.epoch != epoch:
            rates.append(pairs / (time.perf_counter() - started))
            busy.append(pairs / (time.process_time() - cpu))
            started, cpu, epoch = time.perf_counter(), time.process_time(), batch.position.epoch
            if epoch > epochs:
                break
        padded += batch.inputs.size + batch.targets.size
        tokens += (batch.inputs > 0).sum() + (batch.targets > 0).sum()
    print(f"padding: {1 - tokens / padded:.1%} of {len(stream.buckets)} buckets' slots")
    print("the first epoch warms up:")
    print("pairs/s by epoch:              " + ", ".join(f"{rate:,.0f}" for rate in rates))
    # The same whoever else is at work.
    print("pairs/CPU-second by epoch:     " + ", ".join(f"{rate:,.0f}" for rate in busy))


if __name__ == "__main__":
    main()
