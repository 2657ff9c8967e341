"""t2t-import: makes a run directory of what tensor2tensor left."""

import dataclasses
import shutil
import sys
from pathlib import Path
from typing import Any, Self

from t2t_lite import records, registry
from t2t_lite.cli import arguments
from t2t_lite.cli.arguments import log
from t2t_lite.config import HParams
from t2t_lite.errors import UserError
from t2t_lite.runtime import start_tensorflow

_FILES = "hparams.json", "t2t_trainer_hparams.json"  # beside a checkpoint
_SPACES = 32  # rows of its embedding of target spaces


def parser() -> arguments.ProblemParser:
    """The command line of t2t-import."""
    parser = arguments.ProblemParser(
        "Makes a run of a checkpoint of tensor2tensor's Transformer, which every other command "
        "takes. What tensor2tensor had and t2t_lite has not is refused by name.",
        epilog="example: t2t-import --problem=wmt14_ende --checkpoint=DIR/model.ckpt-250000 "
        "--vocab=vocab.translate_ende_wmt32k.32768.subwords --output_dir=RUN",
    )
    add = parser.add_argument
    help = "PREFIX of PREFIX.index and PREFIX.data-00000-of-00001, or a folder with the newest"
    add("--checkpoint", metavar="PREFIX", required=True, help=help)
    help = "the target's sub-words, where --vocab has the source's only"
    add("--target_vocab", metavar="PATH", help=help)
    help = "its hparams.json (default: the one beside the checkpoint)"
    add("--hparams_json", metavar="PATH", help=help)
    help = "instead of that, a set, such as transformer_base_v3; with --set"
    add("--hparams", metavar="SET", help=help)
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="overrides one field")
    help = "the number of what it made, of its 32 target spaces (default: hparams.json's, else 0)"
    add("--target_space_id", type=int, metavar="N", help=help)
    add("--output_dir", metavar="RUN", required=True, help="the run directory; must not exist yet")
    return parser


def import_() -> None:
    """Makes the run, as the command line says."""
    flags = parser()
    args = flags.parse_args()
    problem = flags.problem(args)
    if not problem.vocab:
        raise UserError("--vocab is missing; expected the file of sub-words of the checkpoint")
    path = Path(args.output_dir).expanduser()
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UserError(f"--output_dir {path}: exists already; choose another directory")
    start_tensorflow()
    from t2t_lite.data.tokenizer import Vocabularies, load_vocabulary
    from t2t_lite.tensor2tensor.checkpoint import Checkpoint
    from t2t_lite.tensor2tensor.importing import import_run

    checkpoint = Checkpoint.open(args.checkpoint)
    settings = _Settings.of(args, Path(checkpoint.prefix).parent)
    source = load_vocabulary(problem.vocab)
    target = load_vocabulary(args.target_vocab) if args.target_vocab else source
    source, target = (checkpoint.fitting(each, settings.divisor) for each in (source, target))
    hparams = settings.hparams(target.size)
    partial = path.with_name(f".{path.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # of one that was killed
    try:
        said = import_run(
            partial,
            problem,
            checkpoint,
            Vocabularies(source, target, shared=not args.target_vocab),
            hparams,
            settings.name,
            target_space_id=settings.target_space_id,
            usr_dir=args.usr_dir,
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.rename(path)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    for line in [*settings.said(target.size), *said]:
        log(line)
    log(f"done; translate with: t2t-decoder --output_dir {path} --input FILE")


@dataclasses.dataclass(frozen=True)
class _Settings:
    """What the flags, and the hparams.json beside the checkpoint, say of the model."""

    name: str  # of the set
    values: dict[str, Any] | None  # tensor2tensor's own
    stated: HParams | None  # a set's, instead of them
    overrides: list[str]
    target_space_id: int

    @classmethod
    def of(cls, args, folder: Path) -> Self:
        file = Path(args.hparams_json) if args.hparams_json else None
        if args.hparams:
            if file:
                raise UserError("--hparams and --hparams_json: expected one of them")
            stated, record = registry.hparams(args.hparams), {}
        else:
            file = file or next(
                (folder / name for name in _FILES if (folder / name).is_file()), None
            )
            if not file:
                raise UserError(
                    f"{folder}: no {_FILES[0]}, which tensor2tensor writes beside its checkpoints; "
                    "expected --hparams_json=PATH, or --hparams=SET, such as transformer_base_v3"
                )
            stated, record = None, records.read(file)
        # As its trainer writes them, or with the name of the set beside them.
        values = record.get("values", record) if record else None
        space = args.target_space_id
        if space is None:
            space = record.get("problem", {}).get("target_space_id", 0) if record else 0
        if not 0 <= space < _SPACES:
            raise UserError(f"--target_space_id={space}: expected 0 to {_SPACES - 1}")
        name = args.hparams or record.get("hparams_set") or "tensor2tensor"
        return cls(name, values, stated, args.set, space)

    @property
    def divisor(self) -> int:
        return (self.values or {}).get("vocab_divisor", 1)

    def hparams(self, symbols: int) -> HParams:
        from t2t_lite.tensor2tensor import settings

        if self.stated:
            smoothing = self.stated.label_smoothing * symbols / (symbols - 1)
            return self.stated.replace(label_smoothing=smoothing).override(self.overrides)
        return settings.read(self.values, symbols).override(self.overrides)

    def said(self, symbols: int) -> list[str]:
        from t2t_lite.tensor2tensor.settings import smoothing_constant

        epsilon = (self.values or {}).get("label_smoothing", 0.1)
        if self.stated:
            epsilon = self.stated.label_smoothing
        constant = smoothing_constant(epsilon, symbols)
        return [
            f"label smoothing {epsilon:g} over {symbols - 1:,} symbols is "
            f"{epsilon * symbols / (symbols - 1):.6g} over all; our loss is tensor2tensor's "
            f"+ {constant:.6f}"
        ]


def main() -> None:
    """The command t2t-import."""
    sys.exit(arguments.run(import_, "t2t-import"))
