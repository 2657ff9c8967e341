"""t2t-import: makes a run directory of what tensor2tensor left."""

import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from t2t_lite import records, registry
from t2t_lite.cli import arguments
from t2t_lite.cli.arguments import log
from t2t_lite.config import HParams
from t2t_lite.errors import UserError
from t2t_lite.files import missing_file
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
    path = Path(args.output_dir).expanduser().absolute()
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UserError(f"--output_dir {path}: exists already; choose another directory")
    start_tensorflow()
    from t2t_lite.data.tokenizer import Vocabularies, load_vocabulary
    from t2t_lite.tensor2tensor.checkpoint import Checkpoint
    from t2t_lite.tensor2tensor.importing import import_run
    from t2t_lite.tensor2tensor.settings import over_all_symbols

    checkpoint = Checkpoint.open(args.checkpoint)
    settings = _settings(args, Path(checkpoint.prefix).parent)
    source = load_vocabulary(problem.vocab)
    target = load_vocabulary(args.target_vocab) if args.target_vocab else source
    source, target = (checkpoint.fitting(each, settings.vocab_divisor) for each in (source, target))
    hparams = over_all_symbols(settings.hparams, target.size)
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
    for line in [_smoothing(settings.hparams.label_smoothing, target.size, hparams), *said]:
        log(line)
    log(f"done; translate with: t2t-decoder --output_dir {path} --input FILE")


class _Settings(NamedTuple):
    """What the flags, and the hparams.json beside the checkpoint, say of the model."""

    name: str  # of the set
    hparams: HParams  # with tensor2tensor's label smoothing
    vocab_divisor: int
    target_space_id: int


def _settings(args, folder: Path) -> _Settings:
    from t2t_lite.tensor2tensor.settings import read

    if args.hparams and args.hparams_json:
        raise UserError("--hparams and --hparams_json: expected one of them")
    if args.hparams:
        record, values, name = {}, {}, args.hparams
        hparams = registry.hparams(name)
    else:
        record = records.read(_hparams_json(args, folder))
        # As its trainer writes them, or with the name of the set beside them.
        values, name = record.get("values", record), record.get("hparams_set", "tensor2tensor")
        hparams = read(values)
    space = args.target_space_id
    if space is None:
        space = record.get("problem", {}).get("target_space_id", 0)
    if not 0 <= space < _SPACES:
        raise UserError(f"--target_space_id={space}: expected 0 to {_SPACES - 1}")
    divisor = values.get("vocab_divisor", 1)
    if type(divisor) is not int or divisor < 1:
        raise UserError(f"tensor2tensor's vocab_divisor={divisor!r}: expected a number above 0")
    return _Settings(name, hparams.override(args.set), divisor, space)


def _hparams_json(args, folder: Path) -> Path:
    files = [args.hparams_json] if args.hparams_json else [folder / name for name in _FILES]
    for file in map(Path, files):
        if file.is_file():
            return file
    if args.hparams_json:
        raise missing_file(Path(args.hparams_json))
    raise UserError(
        f"{folder}: no {_FILES[0]}, which tensor2tensor writes beside its checkpoints; "
        "expected --hparams_json=PATH, or --hparams=SET, such as transformer_base_v3"
    )


def _smoothing(epsilon: float, symbols: int, hparams: HParams) -> str:
    from t2t_lite.tensor2tensor.settings import smoothing_constant

    return (
        f"label smoothing {epsilon:g} over {symbols - 1:,} symbols is "
        f"{hparams.label_smoothing:.6g} over all; our loss is tensor2tensor's + "
        f"{smoothing_constant(epsilon, symbols):.6f}"
    )


def main() -> None:
    """The command t2t-import."""
    sys.exit(arguments.run(import_, "t2t-import"))
