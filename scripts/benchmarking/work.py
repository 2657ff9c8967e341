"""What the columns of a benchmark compute: the same numbers for each, from generated ids."""

import json
from pathlib import Path

import numpy as np

from t2t_lite import registry
from t2t_lite.config import HParams
from t2t_lite.data.buckets import Bucket, bucket_numbers, fit_buckets
from t2t_lite.models.size import multiply_adds, search_multiply_adds

VOCABULARIES = {"tiny": 2_000, "small": 8_000, "base": 32_768}
UPDATES = {"tiny": 16, "small": 6, "base": 2}  # of a round
BATCH_TOKENS, MAX_LENGTH = 4_096, 64
SENTENCES, SOURCE, STEPS = 64, 24, 24  # of decoding
ALONE = {"tiny": 16, "small": 8, "base": 2}  # of them one at a time
BEAMS = (1, 4)


class Work:
    """What a column does in a round.

    Attributes:
        size: a key of VOCABULARIES.
        hparams: HParams.
        cases: for each figure of a round what is counted, and how many multiply-adds it takes.
        unit: of what is counted.
    """

    part: str
    unit: str

    def __init__(self, size: str, hparams: HParams):
        self.size, self.hparams = size, hparams
        self.symbols = VOCABULARIES[size]
        self.cases: dict[str, tuple[int, int]] = {}

    def arrays(self) -> dict[str, np.ndarray]:
        """By name, as the column loads them."""
        raise NotImplementedError

    def write(self, folder: Path) -> None:
        """work.json and arrays.npz."""
        about = {"hparams": self.hparams.to_dict(), "vocabulary": self.symbols, "steps": STEPS}
        (folder / "work.json").write_text(json.dumps({**about, "alone": ALONE[self.size]}))
        np.savez(folder / "arrays.npz", **self.arrays())


class Training(Work):
    """Updates. Lengths are drawn like those of short captions (mean 14 sub-words a side).

    Args:
        size: a key of VOCABULARIES.
        packing: whether several pairs stand in each row.
        **fields: other fields of the HParams.
    """

    part, unit = "training", "tokens/s"

    def __init__(self, size: str, packing: bool = False, length: int | None = None, **fields):
        h = registry.hparams(size).replace(
            batch_tokens=BATCH_TOKENS, max_length=length or MAX_LENGTH, packing=packing, **fields
        )
        super().__init__(size, h)
        random = np.random.default_rng(1)
        if length:
            self.batches = self._of_one_length(random, length)
        else:
            lengths = np.clip(random.lognormal(2.55, 0.35, [40_000, 1]), 3, 63)
            lengths = np.clip(lengths * random.normal(1.0, 0.12, [40_000, 2]), 3, 63)
            draw = self._packed if packing else self._padded
            self.batches = draw(random, lengths.astype(int) + 1)
        adds = sum(
            3 * len(a) * multiply_adds(h, self.symbols, a.shape[1], b.shape[1])
            for a, b in self.batches
        )
        tokens = sum(int(np.count_nonzero(targets)) for _, targets in self.batches)
        self.cases["updates"] = tokens, adds

    def arrays(self) -> dict[str, np.ndarray]:
        """N.0: int32 [B, S], N.1: int32 [B, T], of update N."""
        return {f"{i}.{side}": a for i, b in enumerate(self.batches) for side, a in enumerate(b)}

    def _of_one_length(self, random, length):
        rows = np.full(max(1, BATCH_TOKENS // length), length)
        return [tuple(_ids(random, rows, length, self.symbols) for _ in (0, 1)) for _ in (0, 1)]

    def _padded(self, random, lengths):
        """Each bucket as often as the corpus has it."""
        buckets = self._buckets(lengths)
        numbers, batches = bucket_numbers(buckets, lengths), []
        for number in random.choice(numbers, UPDATES[self.size]):
            bucket, those = buckets[number], lengths[numbers == number]
            rows = those[random.integers(len(those), size=bucket.rows)]
            widths = bucket.source_length, bucket.target_length
            sides = enumerate(widths)
            batches.append(
                tuple(_ids(random, rows[:, side], width, self.symbols) for side, width in sides)
            )
        return batches

    def _packed(self, random, lengths):
        from t2t_lite.data.packing import PackedBatch

        [shape, *_] = self._buckets(lengths)
        batch, batches = PackedBatch(shape), []
        while len(batches) < UPDATES[self.size]:
            rows = lengths[random.integers(len(lengths), size=1_000)]
            sides = (_ids(random, rows[:, side], MAX_LENGTH, self.symbols) for side in (0, 1))
            batches += [arrays for _, *arrays in batch.add(np.arange(len(rows)), *sides)]
        return batches[: UPDATES[self.size]]

    def _buckets(self, lengths: np.ndarray) -> list[Bucket]:
        """Fitted as t2t-trainer fits them."""
        names = ("batch_tokens", "max_length", "num_buckets", "packing")
        return fit_buckets(lengths, **{name: getattr(self.hparams, name) for name in names})


class Decoding(Work):
    """Searches of STEPS steps: nothing is learned, and no output ends before."""

    part, unit = "decoding", "sentences/s"

    def __init__(self, size: str):
        super().__init__(size, registry.hparams(size))
        for beam in BEAMS:
            adds = search_multiply_adds(self.hparams, self.symbols, SOURCE, STEPS, beam)
            for batch, count in ((SENTENCES, SENTENCES), (1, ALONE[size])):
                self.cases[case(beam, batch)] = count, count * adds

    def arrays(self) -> dict[str, np.ndarray]:
        """sources: int32 [SENTENCES, SOURCE]."""
        random = np.random.default_rng(1)
        return {"sources": _ids(random, np.full(SENTENCES, SOURCE), SOURCE, self.symbols)}


def case(beam: int, batch: int) -> str:
    """Its name."""
    return f"beam {beam}, batch {batch}"


def _ids(random, lengths, width, vocabulary) -> np.ndarray:
    """int32 [N, width]: each row ends in 1 (EOS), then padding, 0."""
    ids = random.integers(3, vocabulary, [len(lengths), width])
    places = np.arange(width)
    ids[places == lengths[:, None] - 1] = 1
    return np.where(places < lengths[:, None], ids, 0).astype(np.int32)
