"""The columns of CTranslate2: the model of t2t_lite as t2t-exporter writes it, and its search.

A call with several sentences is shared by as many workers as there are threads, one thread each.
"""

import multiprocessing

import ctranslate2
import numpy as np
from answering import Job

JOB = Job(["decoding"], "int8")


class Numbers:
    """A vocabulary of numbers, without texts."""

    unk = 2

    def __init__(self, size):
        self.size = size

    def pieces(self, ids):
        """Their names."""
        return [f"t{i}" for i in ids]


def write_model() -> str:
    """-> the folder. Has TensorFlow do it, so it is for a process of its own."""
    from types import SimpleNamespace

    from t2t_lite.config import HParams
    from t2t_lite.export.ctranslate2 import TransformerConverter
    from t2t_lite.models.transformer import Transformer

    model = Transformer(HParams().replace(**JOB.hparams), *[JOB.vocabulary] * 2, shared=True)
    both = SimpleNamespace(source=Numbers(JOB.vocabulary), target=Numbers(JOB.vocabulary))
    quantization = "int8" if JOB.args.int8 else None
    return TransformerConverter(model, both).convert(
        str(JOB.args.folder / "model"), quantization=quantization
    )


def make_searches():
    """-> W -> a function of sources; for each output whether a place has a symbol."""
    with multiprocessing.get_context("spawn").Pool(1) as process:
        folder = process.apply(write_model)
    engine = ctranslate2.Translator(
        folder, device="cpu", inter_threads=JOB.args.threads, intra_threads=1
    )

    def make_search(beam):
        def search(sources):
            results = engine.translate_batch(
                [[f"t{i}" for i in row[:-1]] for row in sources],  # it adds EOS itself
                max_batch_size=-(-len(sources) // JOB.args.threads),
                beam_size=beam,
                length_penalty=0.45,
                min_decoding_length=JOB.steps,
                max_decoding_length=JOB.steps,
            )
            lengths = np.array([[len(result.hypotheses[0])] for result in results])
            return np.arange(JOB.steps) < lengths

        return search

    return make_search


def main():
    """Searches when asked to."""

    def product(m, k, n):
        random = np.random.default_rng(1)
        factors = [random.standard_normal(shape, np.float32) for shape in ((m, k), (k, n))]
        return lambda: np.matmul(*factors)[0, 0]

    JOB.decode(make_searches(), product)


if __name__ == "__main__":
    main()
