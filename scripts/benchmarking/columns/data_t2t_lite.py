"""Seconds that t2t_lite takes for a vocabulary and for an epoch in random order, as JSON."""

import json
import sys
import time
from pathlib import Path

from t2t_lite.data.corpus import Mix
from t2t_lite.data.corpus_writer import write_corpus
from t2t_lite.data.sources import TextFiles


def main(source, target, pairs, symbols, folder):
    """Prints them."""
    mix = Mix([write_corpus(TextFiles(source, target), Path(folder), "bench")], [1.0])
    from t2t_lite.runtime import start_tensorflow

    start_tensorflow()
    import numpy as np

    from t2t_lite.data.buckets import fit_buckets
    from t2t_lite.data.pipeline import TrainingBatches, sample_lengths
    from t2t_lite.data.tokenizer import EOS, Vocabularies, Vocabulary

    started = time.perf_counter()
    texts = (text.decode() for pair in mix.sample(500_000, 1) for text in pair)
    vocabulary = Vocabulary.train(texts, int(symbols))
    figures = {"vocabulary": time.perf_counter() - started}

    vocabularies = Vocabularies(vocabulary, vocabulary, shared=True)
    shape = dict(batch_tokens=4_096, num_buckets=16, max_length=256)
    buckets = fit_buckets(sample_lengths(mix, vocabularies, 1, 0.0), **shape)
    stream = iter(TrainingBatches(mix, vocabularies, buckets, seed=1, max_length=256))
    next(stream)  # what is set up once is not counted
    started, read = time.perf_counter(), 0
    while read < int(pairs):
        read += int(np.count_nonzero(next(stream).targets == EOS))
    figures["reading"] = (time.perf_counter() - started) * int(pairs) / read
    print(json.dumps(figures))


if __name__ == "__main__":
    main(*sys.argv[1:])
