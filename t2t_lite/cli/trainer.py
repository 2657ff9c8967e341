"""t2t-trainer: trains a Transformer on a problem."""

import contextlib
import dataclasses
import math
import sys
from pathlib import Path

from t2t_lite import registry
from t2t_lite.cli import arguments
from t2t_lite.cli.arguments import log
from t2t_lite.cluster import from_environment
from t2t_lite.config import PRECISIONS
from t2t_lite.errors import UserError
from t2t_lite.lock import locked
from t2t_lite.malloc import keep_freed_memory
from t2t_lite.output import check_folder
from t2t_lite.runtime import start_tensorflow

# d_model up to which an operation on a CPU is too small for two threads: with one for each, the
# demo took 15% less CPU time, 60% less of it in the kernel; `small` (256) is 15% slower.
_NARROW = 128


class TrainerParser(arguments.ProblemParser):
    """A ProblemParser whose help also shows the fields of --hparams."""

    _set: str | None = None

    def parse_args(self, args=None, namespace=None):
        """As ProblemParser does."""
        self._set = arguments.first_look(args, "--hparams").hparams
        return super().parse_args(args, namespace)

    def format_help(self):
        """The flags, then the fields of the set."""
        if self._set is None:
            fields = "fields of an hparams set, for --set:\n  --hparams=SET --help shows them\n"
        else:
            fields = registry.hparams(self._set).describe()
            fields = f"fields of hparams set {self._set}, for --set:\n{fields}\n"
        return f"{super().format_help()}\n{fields}"


def parser() -> TrainerParser:
    """The command line of t2t-trainer."""
    parser = TrainerParser(
        "Trains a Transformer on a problem with an hparams set. The same command again resumes it.",
        epilog="example: t2t-trainer --problem=multi30k_ende --hparams=small --raw_dir=DIR",
    )
    parser.add_argument(
        "--hparams",
        metavar="SET",
        default="base",
        help="name of an hparams set (default: base); with --help: its fields",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="overrides one field of the set; repeatable",
    )
    add = parser.add_argument
    add("--output_dir", metavar="RUN", help="the run directory (default: runs/PROBLEM-SET)")
    help = "begin with the weights and the vocabulary of another run, to tune them to other data"
    add("--init_from", metavar="RUN", help=help)
    add("--seed", type=int, default=1, help="of weights, data order and dropout (default: 1)")
    parser.add_argument(
        "--train_minutes",
        type=float,
        metavar="M",
        help="end after M minutes, as after the last step; the same command goes on",
    )
    parser.add_argument(
        "--dry_run", action="store_true", help="print what would run, and exit; writes nothing"
    )
    _add_resuming(
        parser.add_argument_group("what to do where a run is resumed and not all is as it was")
    )
    _add_devices(parser.add_argument_group("devices"))
    return parser


def _add_resuming(group) -> None:
    for flag, help in (
        (
            "--data_changed",
            "the training or dev data are others; continue: with them, from the next epoch on",
        ),
        (
            "--devices_changed",
            "there is dropout, and the devices or micro-batches, from which its masks follow, are "
            "others; continue: with other masks",
        ),
        (
            "--optimizer_lost",
            "no checkpoint has the optimizer's state any more; continue: from the newest weights, "
            "with a fresh optimizer",
        ),
    ):
        choices = ["refuse", "continue"]
        group.add_argument(
            flag, choices=choices, default="refuse", help=f"{help} (default: refuse)"
        )


def _add_devices(group) -> None:
    group.add_argument(
        "--precision", choices=PRECISIONS, default="float32", help="of matrix products"
    )
    group.add_argument(
        "--xla",
        choices=["auto", "on", "off"],
        default="auto",
        help="compile by XLA (auto: on GPUs)",
    )
    group.add_argument(
        "--logical_devices",
        type=int,
        metavar="N",
        help="cut the CPU into N devices, to try several replicas",
    )
    group.add_argument(
        "--micro_batch_tokens",
        type=int,
        metavar="N",
        help="cut each device's share of an update into parts of at most N tokens a side (default: "
        "parts that its memory holds); the updates are the same",
    )
    group.add_argument(
        "--deterministic", action="store_true", help="bit-equal results in every run; slower"
    )


def train() -> None:
    """Trains, as the command line says."""
    flags = parser()
    args = flags.parse_args()
    run = _run(args, flags.problem(args))
    run.check_resumable(log)
    origin = _origin(run)
    keep_freed_memory()
    if args.dry_run:
        _start_tensorflow(run, args)
        from t2t_lite.cli import plan

        print(plan.dry_run(run, args))
        return
    check_folder(run.path)
    from t2t_lite.data.prepare import prepare_corpora

    # Before TensorFlow runs, for then several processes can share the work.
    corpora = prepare_corpora(run.problem, log)
    run = dataclasses.replace(run, data=corpora.record())
    cluster = from_environment()
    if cluster and args.logical_devices:
        raise UserError(
            "--logical_devices is for one process, and TF_CONFIG or SLURM names several"
        )
    with contextlib.ExitStack() as stack:
        if cluster:
            stack.enter_context(cluster.lost_workers_named())
        if not cluster or cluster.is_chief:
            stack.enter_context(locked(run.path, log))
        _train(run, corpora, origin, args, cluster)
    if cluster and not cluster.is_chief:
        log(f"{cluster}: done")
        return
    log(f"done; translate with: t2t-decoder --output_dir {run.path} --input FILE")


def _origin(run):
    """The Origin of a run that has no checkpoint of its own yet; None: it has, or begins anew."""
    if not run.init_from or run.checkpoints().steps():
        return None
    from t2t_lite.origin import Origin

    origin = Origin.open(run.init_from)
    origin.check(run)
    log(origin.described(run))
    return origin


def _train(run, corpora, origin, args, cluster) -> None:
    run.check_data(args.data_changed)
    before = run.check_resumable(log)
    workers = _start_tensorflow(run, args)
    from t2t_lite.cli import plan
    from t2t_lite.devices import choose_xla, make_strategy
    from t2t_lite.training.trainer import Trainer

    if cluster:
        log(f"{cluster}, which are {', '.join(cluster.workers)}; waiting for all to come")
    strategy = make_strategy(args.logical_devices, cluster)
    xla, why = choose_xla(args.xla)
    vocabularies = _vocabularies(run, corpora.train, origin)
    trainer = Trainer(
        run,
        corpora,
        vocabularies,
        strategy=strategy,
        cluster=cluster,
        xla=xla,
        precision=args.precision,
        micro_batch_tokens=args.micro_batch_tokens,
        before=before and before.hparams,
        initial_weights=origin and origin.weights,
        devices_may_change=args.devices_changed == "continue",
        optimizer_may_be_lost=args.optimizer_lost == "continue",
        workers=workers,
        log=log,
    )
    if trainer.is_chief:
        vocabularies.save(run.path)
        run.save()
        log(plan.start(trainer, strategy, args.precision, xla, why))
    trainer.train(args.train_minutes)


def _start_tensorflow(run, args) -> int:
    workers = start_tensorflow(together=run.hparams.d_model > _NARROW)
    import keras
    import tensorflow as tf

    if args.deterministic:
        tf.config.experimental.enable_op_determinism()
    keras.utils.set_random_seed(args.seed)
    return workers


def _run(args, problem):
    """The Run that the flags describe, which may not exist yet."""
    from t2t_lite.run import Run

    if args.train_minutes is not None and not 0 < args.train_minutes < math.inf:
        raise UserError(f"--train_minutes={args.train_minutes}: expected more than 0")
    for name in ("logical_devices", "micro_batch_tokens"):
        if getattr(args, name) is not None and getattr(args, name) < 1:
            raise UserError(f"--{name}={getattr(args, name)}: expected at least 1")
    if not 0 <= args.seed < 2**31:
        raise UserError(f"--seed={args.seed}: expected 0 to {2**31 - 1:,}")
    hparams = registry.hparams(args.hparams).override(args.set)
    path = Path(args.output_dir or f"runs/{problem.name}-{args.hparams}").expanduser()
    init_from = args.init_from and str(Path(args.init_from).expanduser().resolve())
    return Run(path, problem, args.hparams, hparams, args.seed, args.usr_dir, init_from=init_from)


def _vocabularies(run, train, origin):
    """The run's own; of a new run those of its Origin, or of its problem."""
    if not run.exists and origin:
        return origin.vocabularies(train, log)
    if not run.exists:
        from t2t_lite.data.prepare import prepare_vocabularies

        return prepare_vocabularies(run.problem, train, log)
    vocabularies = run.vocabularies()
    if given := run.problem.vocab:
        from t2t_lite.data.tokenizer import load_vocabulary

        if load_vocabulary(given).digest != vocabularies.source.digest:
            raise UserError(
                f"--vocab {given}: not the vocabulary that --output_dir {run.path} was trained "
                "with; expected that, or no --vocab"
            )
    return vocabularies


def main() -> None:
    """The command t2t-trainer."""
    sys.exit(arguments.run(train, "t2t-trainer"))
