"""What all commands share: flags, their errors in one line, and the exit codes (0 done, 2 bad input)."""

import argparse
import contextlib
import difflib
import os
import sys
from collections.abc import Callable

from t2t_lite import __version__
from t2t_lite.errors import UserError
from t2t_lite.malloc import keep_freed_memory
from t2t_lite.quiet import native_stderr_silenced

# What tensor2tensor called it -> what it is called here.
_T2T_FLAGS = {
    "--hparams_set": "--hparams=SET",
    "--model": "nothing: there is one model, the Transformer; choose its sizes with --hparams=SET",
    "--t2t_usr_dir": "--usr_dir=PATH",
    "--worker_gpu": "nothing: all visible GPUs are used; choose with CUDA_VISIBLE_DEVICES, or --logical_devices=N on a CPU",
    "--worker_gpu_memory_fraction": "nothing: TensorFlow grows its memory; see TF_GPU_ALLOCATOR",
    "--tmp_dir": "--raw_dir=DIR for files you have; downloads go to --data_dir",
    "--train_steps": "--set train_steps=N",
    "--eval_steps": "--set eval_steps=N",
    "--local_eval_frequency": "--set eval_steps=N",
    "--save_checkpoints_secs": "--set checkpoint_minutes=M",
    "--keep_checkpoint_max": "--set average_checkpoints=N",
    "--random_seed": "--seed=N",
    "--schedule": "nothing: the trainer trains and evaluates",
    "--decode_hparams": "--beam_size=N --alpha=A of t2t-decoder",
    "--decode_from_file": "--input=FILE of t2t-decoder",
    "--decode_to_file": "--output=FILE of t2t-decoder",
    "--decode_interactive": "--interactive of t2t-decoder",
    "--score_file": "--per_line of t2t-eval",
    "--checkpoint_path": "--output_dir=RUN; the averaged, else best, else latest checkpoint is used",
    "--generate_data": "nothing: the trainer makes what is missing; t2t-datagen does that part alone",
    "--export_saved_model": "t2t-exporter",
    "--problems": "--problem=NAME",
    "--hparams_range": "nothing: there is no hyperparameter search",
    "--ps_gpu": "nothing: there are no parameter servers",
    "--sync": "nothing: training is always synchronous",
}


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are one line that names the nearest valid choice, as a UserError."""

    def __init__(self, description: str, **kwargs):
        super().__init__(description=description, allow_abbrev=False, **kwargs)
        self.add_argument("--version", action="version", version=f"t2t_lite {__version__}")

    def error(self, message):
        raise UserError(message)

    def parse_args(self, args=None, namespace=None):
        namespace, rest = self.parse_known_args(args, namespace)
        for word in rest:
            raise self._unknown(word)
        return namespace

    def _unknown(self, word: str) -> UserError:
        flag = word.partition("=")[0]
        known = [option for option in self._option_string_actions if option.startswith("--")]
        if flag in _T2T_FLAGS:
            return UserError(f"{flag} is tensor2tensor's; here it is {_T2T_FLAGS[flag]}")
        if not flag.startswith("-"):
            return UserError(f"unexpected argument {word!r}; see --help")
        near = difflib.get_close_matches(flag, known, n=3, cutoff=0.5)
        return UserError(
            f"unknown flag {flag}; " + (f"nearest: {', '.join(near)}" if near else "see --help")
        )


def add_run(parser: Parser, required: bool = True) -> None:
    """The flags of commands that work on a finished or running training: --output_dir, --usr_dir."""
    parser.add_argument(
        "--output_dir", metavar="RUN", required=required, help="the run directory of t2t-trainer"
    )
    add_usr_dir(parser)


def add_usr_dir(parser: Parser) -> None:
    parser.add_argument(
        "--usr_dir",
        metavar="PATH",
        help="a Python file, or a folder with __init__.py, that registers problems or sets",
    )


def add_unconstrained(parser) -> None:
    """--unconstrained, of commands that search for outputs."""
    parser.add_argument(
        "--unconstrained",
        action="store_true",
        help="let the model write what it likes, where the problem has a grammar",
    )


def add_problem(parser: Parser) -> None:
    """The flags that choose a problem and say where its data are."""
    parser.add_argument(
        "--problem", metavar="NAME", help="what to train on; --registry_help lists them"
    )
    group = parser.add_argument_group("data", "Which of these a problem takes, it says itself.")
    group.add_argument(
        "--data_dir", metavar="DIR", help="keeps downloads and vocabularies (default: t2t_data)"
    )
    group.add_argument(
        "--raw_dir", metavar="DIR", help="local files to read instead of downloading"
    )
    for split in ("train", "dev", "test"):
        group.add_argument(
            f"--{split}",
            nargs="+",
            metavar="FILE",
            help=f"the {split} split: one TSV or two line-aligned files, or trees",
        )
    group.add_argument(
        "--vocab_size", type=int, metavar="N", help="sub-words of a newly trained vocabulary"
    )
    group.add_argument("--vocab", metavar="FILE", help="an existing SentencePiece model to use")
    group.add_argument(
        "--max_length_ratio",
        type=float,
        metavar="R",
        help="drop training pairs one side of which is R times as long",
    )
    group.add_argument(
        "--drop_duplicates",
        action="store_true",
        default=None,
        help="keep equal training pairs once",
    )
    group.add_argument(
        "--tags",
        metavar="FORM",
        help="parsing: what a word is: kept (its part of speech) or normalised (XX)",
    )
    group.add_argument(
        "--closing", metavar="FORM", help="parsing: labelled closing brackets (default) or plain"
    )
    group.add_argument(
        "--silver",
        nargs="+",
        metavar="FILE",
        help="parsing: automatically parsed trees to train on too",
    )
    group.add_argument(
        "--silver_per_gold",
        type=int,
        metavar="N",
        help="parsing: silver trees before each gold one (10)",
    )
    group.add_argument(
        "--skip_bad_trees",
        action="store_true",
        default=None,
        help="parsing: count broken trees and go on",
    )
    group.add_argument(
        "--registry_help", action="store_true", help="list all problems and hparams sets, and exit"
    )
    add_usr_dir(parser)


_PROBLEM_OPTIONS = (
    "data_dir", "raw_dir", "train", "dev", "test", "vocab_size", "vocab", "max_length_ratio", "drop_duplicates",
    "tags", "closing", "silver", "silver_per_gold", "skip_bad_trees",
)  # fmt: skip


def problem_from(args):
    """The problem that the flags of `add_problem` describe. Loads the plugins."""
    from t2t_lite import registry

    registry.load_plugins(args.usr_dir)
    if not args.problem:
        raise UserError("--problem is missing; --registry_help lists all problems")
    given = {
        name: getattr(args, name) for name in _PROBLEM_OPTIONS if getattr(args, name) is not None
    }
    # Absolute, since the run directory keeps them, and later commands may start elsewhere.
    for name in ("train", "dev", "test", "silver"):
        if name in given:
            given[name] = tuple(os.path.abspath(os.path.expanduser(path)) for path in given[name])
    for name in ("data_dir", "raw_dir", "vocab"):
        if name in given:
            given[name] = os.path.abspath(os.path.expanduser(given[name]))
    if given.get("vocab_size", 1) < 1:
        raise UserError(f"--vocab_size={given['vocab_size']}: expected more than 0")
    return registry.problem(args.problem, **given)


def registry_help(args) -> bool:
    """Prints the registry and returns True where --registry_help was given."""
    if args.registry_help:
        from t2t_lite import registry

        registry.load_plugins(args.usr_dir)
        print(registry.describe())
    return args.registry_help


def add_threads(parser, default: str = "all") -> None:
    parser.add_argument("--threads", type=int, metavar="N", help=f"of the CPU (default: {default})")


def start_tensorflow(threads: int | None = None, *, together: bool = True) -> None:
    """Imports TensorFlow, which no environment variable keeps from talking on stderr, quietly.

    Args:
        threads: how many it uses, on CPUs; None: all.
        together: whether they share each operation. False: each has one thread, and that many run at the same time. It is
            faster where several batches are at hand, since small operations gain little from a second thread.

    """
    if threads is not None and threads < 1:
        raise UserError(f"--threads={threads}: expected at least 1")
    keep_freed_memory()
    with native_stderr_silenced():
        import tensorflow

        tensorflow.config.list_physical_devices()
        with contextlib.suppress(
            RuntimeError
        ):  # it runs already, in a process that calls several commands
            tensorflow.config.threading.set_intra_op_parallelism_threads(
                (threads or 0) if together else 1
            )
            tensorflow.config.threading.set_inter_op_parallelism_threads(threads or 0)


def log(text: str = "") -> None:
    """Progress and logs go to stderr; results to stdout."""
    print(text, file=sys.stderr, flush=True)


def run(main: Callable[[], None], name: str) -> int:
    """Runs a command and returns its exit code: 2 and one line on stderr for a UserError."""
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow's own start-up talk
    try:
        main()
    except UserError as error:
        print(f"{name}: error: {' '.join(str(error).splitlines())}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output has gone: `t2t-decoder ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return 130
    return 0
