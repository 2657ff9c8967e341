"""Seconds that OpenNMT-tf takes for a vocabulary and for an epoch in random order, as JSON."""

import json
import subprocess
import sys
import time
from pathlib import Path

import opennmt


def main(source, target, pairs, symbols, folder):
    """Prints them."""
    started = time.perf_counter()
    subprocess.run(
        [str(Path(sys.executable).parent / "onmt-build-vocab"), "--sentencepiece", "model_type=bpe"]
        + ["--size", symbols, "--save_vocab", f"{folder}/sp", source, target],
        check=True,
        stdout=sys.stderr,
    )
    figures = {"vocabulary": time.perf_counter() - started}
    model = opennmt.models.Transformer(num_layers=1, num_units=8, num_heads=1, ffn_inner_dim=8)
    both = {}
    for side in ("source", "target"):
        both[f"{side}_vocabulary"] = f"{folder}/sp.vocab"
        how = {"mode": "none", "sp_model_path": f"{folder}/sp.model"}
        both[f"{side}_tokenization"] = {"type": "OpenNMTTokenizer", "params": how}
    model.initialize(both)
    dataset = model.examples_inputter.make_training_dataset(
        source,
        target,
        4_096,
        batch_type="tokens",
        shuffle_buffer_size=int(pairs),
        length_bucket_width=2,
        maximum_features_length=256,
        maximum_labels_length=256,
    )
    batches = iter(dataset)
    next(batches)
    started, read = time.perf_counter(), 0
    while read < int(pairs):
        read += len(next(batches)[0]["length"])
    figures["reading"] = (time.perf_counter() - started) * int(pairs) / read
    print(json.dumps(figures))


if __name__ == "__main__":
    main(*sys.argv[1:])
