"""Measures the input pipeline: text files -> prepared corpus -> vocabulary -> padded batches.

python scripts/bench_pipeline.py --input train.en.gz --target train.de.gz --data_dir DIR
python scripts/bench_pipeline.py --generate 10_000_000 --data_dir DIR

Prints pairs/s of preparing and of batches in random order, tokenised, and the peak of memory after
each part. The second form makes up the text itself, in DIR.
"""

import argparse
import itertools
import random
import resource
import time
from pathlib import Path


def flags() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--input", help="line-aligned text, plain or .gz")
    parser.add_argument("--target", help="line-aligned text, plain or .gz")
    parser.add_argument("--generate", type=int, metavar="N", help="pairs to make up instead")
    parser.add_argument("--data_dir", required=True, help="where the prepared corpus goes")
    parser.add_argument("--vocab_size", type=int, default=8_000)
    parser.add_argument("--batch_tokens", type=int, default=4_096)
    parser.add_argument("--max_length", type=int, default=256)
    parser.add_argument("--num_buckets", type=int, default=16)
    parser.add_argument("--packing", action="store_true", help="several pairs in a row")
    parser.add_argument("--subword_sampling", type=float, default=0.0)
    parser.add_argument(
        "--epochs", type=int, default=3, help="measured after one for warming up, or in its place"
    )
    parser.add_argument("--batches", type=int, help="measure so many batches, not whole epochs")
    return parser.parse_args()


def generate(folder: Path, pairs: int) -> tuple[Path, Path]:
    """Writes so many pairs of 4 to 20 made-up words, their frequencies as Zipf's law has them."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / f"made_up.{pairs}.en", folder / f"made_up.{pairs}.de"
    syllables = [a + b for a in ("b", "d", "fl", "g", "k", "m", "n", "st", "tr") for b in "aeiou"]
    chooser = random.Random(1)
    words = [["".join(chooser.choices(syllables, k=chooser.randint(1, 4))) for _ in range(50_000)]]
    words.append([word + "en" for word in words[0]])
    weights = list(itertools.accumulate(1 / rank for rank in range(1, 50_001)))
    for path, side in zip(paths, words):
        if path.exists():
            continue
        with open(path, "w", encoding="utf-8") as file:
            for _ in range(0, pairs, 1000):
                drawn = iter(chooser.choices(side, cum_weights=weights, k=20_000))
                lengths = (chooser.randint(4, 20) for _ in range(1000))
                file.writelines(" ".join(next(drawn) for _ in range(n)) + "\n" for n in lengths)
    return paths


def report(what: str, started: float, pairs: int = 0) -> None:
    """A line with seconds, pairs/s and the peak of memory of this process so far."""
    seconds = time.perf_counter() - started
    rate = f", {pairs / seconds:,.0f} pairs/s" if pairs else ""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{what}: {seconds:.1f} s{rate}; peak memory {peak:,.0f} MiB", flush=True)


def main():
    """Prints how long each part takes, and its memory."""
    args = flags()
    paths = args.input, args.target
    if args.generate:
        paths = generate(Path(args.data_dir), args.generate)

    from t2t_lite.data.corpus import Mix
    from t2t_lite.data.corpus_writer import write_corpus
    from t2t_lite.data.sources import TextFiles

    started = time.perf_counter()
    corpus = write_corpus(TextFiles(*paths), Path(args.data_dir), "bench")
    report(f"prepared {len(corpus):,} pairs", started, len(corpus))
    mix = Mix([corpus], [1.0])

    from t2t_lite.runtime import start_tensorflow

    started = time.perf_counter()
    start_tensorflow()
    from t2t_lite.data.buckets import fit_buckets
    from t2t_lite.data.pipeline import TrainingBatches, sample_lengths
    from t2t_lite.data.tokenizer import Vocabularies, Vocabulary

    report("TensorFlow imported", started)
    started = time.perf_counter()
    texts = (text.decode() for pair in mix.sample(500_000, 1) for text in pair)
    vocabulary = Vocabulary.train(texts, args.vocab_size)
    vocabularies = Vocabularies(vocabulary, vocabulary, shared=True)
    report("vocabulary", started)
    started = time.perf_counter()
    lengths = sample_lengths(mix, vocabularies, 1, args.subword_sampling)
    shape = {name: getattr(args, name) for name in ("batch_tokens", "num_buckets", "packing")}
    buckets = fit_buckets(lengths, max_length=args.max_length, **shape)
    how = {name: getattr(args, name) for name in ("max_length", "subword_sampling", "packing")}
    stream = TrainingBatches(mix, vocabularies, buckets, seed=1, **how)
    next(iter(stream))
    report("buckets and the first batch", started)
    measure(stream, args.epochs, args.batches)


def measure(stream, epochs: int, most: int | None) -> None:
    """Prints padding and speed of some epochs, or of some batches."""
    import numpy as np

    from t2t_lite.data.tokenizer import EOS

    padded = tokens = pairs = epoch = 0
    started, cpu = time.perf_counter(), time.process_time()
    for number, batch in enumerate(stream):
        if number == most or batch.position.epoch != epoch:
            report(f"{pairs:,} pairs", started, pairs)
            # The same whoever else is at work.
            print(f"    {pairs / (time.process_time() - cpu):,.0f} pairs a CPU-second")
            started, cpu, epoch = time.perf_counter(), time.process_time(), epoch + 1
            pairs = 0
            if number == most or epoch > epochs:
                break
        pairs += np.count_nonzero(batch.targets == EOS)
        padded += batch.inputs.size + batch.targets.size
        tokens += (batch.inputs > 0).sum() + (batch.targets > 0).sum()
    print(f"padding: {1 - tokens / padded:.1%} of the places in {len(stream.buckets)} shapes")


if __name__ == "__main__":
    main()
