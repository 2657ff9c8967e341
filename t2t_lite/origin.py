"""Origin: the run that another one begins with (`--init_from`), to be tuned to other data."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from t2t_lite import weights
from t2t_lite.config import HParams
from t2t_lite.data import vocabulary_files
from t2t_lite.data.corpus import Mix
from t2t_lite.errors import UserError
from t2t_lite.files import digest_of, missing_file
from t2t_lite.options import FilePath, options
from t2t_lite.problem import Problem
from t2t_lite.run import Run, hparams_of, read_record

# Another value of these is another model, whose weights would not fit or mean something else.
_SIZES = (
    "num_encoder_layers", "num_decoder_layers", "d_model", "d_ff", "num_heads", "d_k", "d_v",
    "encoder_layer", "norm", "positions", "share_embeddings", "tie_softmax", "target_space",
)  # fmt: skip
_SAMPLE = 1_000  # pairs that are searched for symbols which the vocabularies lack


@dataclasses.dataclass(frozen=True)
class Origin:
    """A run whose weights and vocabularies another one begins with. None of its code is run.

    Attributes:
        path: its directory.
        weights: the file that is taken, as `weights.chosen` says.
        problem: the name of what it was trained on.
        options: of that problem.
        hparams_set, hparams: it was trained with.
    """

    path: Path
    weights: Path
    problem: str
    options: dict[str, Any]
    hparams_set: str
    hparams: HParams

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Raises UserError where there is no run, no checkpoint, or not the run's vocabulary."""
        path = Path(path).expanduser()
        record = read_record(path, "--init_from")
        if (stored := record.get("vocabularies")) is not None:
            vocabulary_files.check(path, stored)
        return cls(
            path,
            weights.chosen(path),
            record["problem"],
            record["options"],
            record["hparams_set"],
            hparams_of(record, path),
        )

    def check(self, run: Run) -> None:
        """Raises UserError where a new run cannot begin with this one."""
        sizes = list(_SIZES)
        if run.hparams.positions == "learned":
            sizes.append("max_positions")
        if run.hparams.encoder_layer == "convolution":
            sizes.append("kernel_size")
        wrong = self._differences(run.hparams, sizes)
        if wrong:
            raise UserError(
                f"--init_from {self.path}: its model is another: {'; '.join(wrong)}; expected its "
                f"sizes, as of --hparams={self.hparams_set}, or --set for each"
            )
        self._check_vocabularies(run.problem)

    def _check_vocabularies(self, problem: Problem) -> None:
        shared = "vocab.source.model" not in vocabulary_files.digests(self.path)
        if shared != problem.shared_vocabulary:
            kinds = "separate vocabularies", "one vocabulary for both sides"
            raise UserError(
                f"--init_from {self.path}: it has {kinds[shared]}, and problem {problem.name} "
                f"{kinds[problem.shared_vocabulary]}; expected a run or a problem of the same kind"
            )
        own = self.path / ("vocab.model" if shared else "vocab.source.model")
        if given := problem.vocab and Path(problem.vocab):
            if not given.is_file():
                raise missing_file(given)
            if digest_of(given) != digest_of(own):
                raise UserError(
                    f"--vocab {given}: not the vocabulary that the weights of --init_from "
                    f"{self.path} belong to; expected {own}, or no --vocab"
                )
        size = problem.vocab_size
        if size is not None and size != self.options.get("vocab_size"):
            raise UserError(
                f"--vocab_size={size}: the vocabulary is that of --init_from {self.path}; expected "
                "no --vocab_size"
            )

    def described(self, run: Run) -> str:
        """What the new run takes, and all that is not as it was, in lines."""
        lines = [f"init_from   {weights.with_steps(self.weights)}"]
        pairs = [("problem", self.problem, run.problem.name)]
        mine, fields = run.problem.options(), options(type(run.problem))
        for name in (field.name for field in fields if field.kind is not FilePath):
            if name in mine and name != "vocab_size":  # of which none is trained
                pairs.append((name, self.options.get(name), mine[name]))
        lines += [f"{name}: {old} -> {new}" for name, old, new in pairs if old != new]
        lines += self._differences(run.hparams, run.hparams.to_dict())
        return "\n            ".join(lines)

    def _differences(self, hparams: HParams, names) -> list[str]:
        return [
            text for text in self.hparams.differences(hparams) if text.partition(":")[0] in names
        ]

    def vocabularies(self, train: Mix, log: Callable[[str], object]):
        """Its `data.tokenizer.Vocabularies`; `log` is told of what the new data have beyond it."""
        from t2t_lite.data.tokenizer import Vocabularies

        found = Vocabularies.load(self.path)
        log(f"vocabulary: of {self.path}, {found.source.size:,} and {found.target.size:,} symbols")
        for name, texts in zip(("source", "target"), zip(*train.sample(_SAMPLE, seed=1))):
            vocabulary = getattr(found, name)
            rows = vocabulary.encode_lines(texts)
            lacking = [text.decode() for text, row in zip(texts, rows) if vocabulary.unk in row]
            if lacking:
                log(
                    f"warning: {len(lacking):,} of {len(texts):,} {name} texts have symbols that "
                    f"this vocabulary lacks; the first: {lacking[0]!r:.80}"
                )
        return found
