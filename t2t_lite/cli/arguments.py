"""What commands share: flags, errors in one line, and the exit codes (0 done, 2 bad input)."""

import argparse
import difflib
import functools
import gc
import os
import sys
import warnings
from collections.abc import Callable, Sequence

from t2t_lite import __version__, registry
from t2t_lite.cli import streams
from t2t_lite.errors import Stopped, UserError, machine_errors, reason
from t2t_lite.options import add_options, given_options
from t2t_lite.problem import Problem

# What tensor2tensor called it -> what it is called here.
_T2T_FLAGS = {
    "--hparams_set": "--hparams=SET",
    "--model": "nothing: there is one model, the Transformer; choose its sizes by --hparams=SET",
    "--t2t_usr_dir": "--usr_dir=PATH",
    "--worker_gpu": "nothing: all visible GPUs are used; choose with CUDA_VISIBLE_DEVICES, or "
    "--logical_devices=N on a CPU",
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
    "--checkpoint_path": "--output_dir=RUN; the averaged, else best, else latest checkpoint serves",
    "--warm_start_from": "--init_from=RUN of t2t-trainer",
    "--generate_data": "nothing: the trainer makes what is missing; t2t-datagen does that alone",
    "--export_saved_model": "t2t-exporter",
    "--problems": "--problem=NAME",
    "--hparams_range": "nothing: there is no hyperparameter search",
    "--ps_gpu": "nothing: there are no parameter servers",
    "--sync": "nothing: training is always synchronous",
}


_COLLECT_AFTER = 50_000  # new objects that garbage collection waits for; by default a few hundred
_NAMES = {"FILE", "DIR", "RUN", "PATH"}  # the metavars of flags that take names of files


class _Store(argparse.Action):
    """A flag that takes one value, or with `nargs` several, once."""

    def __call__(self, parser, namespace, values, option_string=None):
        parser.check_once(option_string)
        if self.metavar in _NAMES and "" in (values if isinstance(values, list) else [values]):
            raise UserError(f"{option_string} with an empty name; expected {self.metavar}")
        setattr(namespace, self.dest, values)


class _StoreConst(_Store):
    """A flag without a value, once."""

    def __init__(self, option_strings, dest, const, **kwargs):
        super().__init__(option_strings, dest, nargs=0, const=const, **kwargs)

    def __call__(self, parser, namespace, values, option_string=None):
        super().__call__(parser, namespace, self.const, option_string)


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are UserErrors, one line that names the nearest valid choice.

    A flag is given once at most, but for those with action="append".
    """

    def __init__(self, description: str = "", **kwargs):
        super().__init__(description=description, allow_abbrev=False, **kwargs)
        for action in None, "store":
            self.register("action", action, _Store)
        for action, const in ("store_true", True), ("store_false", False):
            once = functools.partial(_StoreConst, const=const, default=not const)
            self.register("action", action, once)
        self.add_argument("--version", action="version", version=f"t2t_lite {__version__}")
        self._given: set[str | None] = set()

    def error(self, message):
        """Raises UserError instead of leaving the process."""
        raise UserError(message)

    def check_once(self, flag: str | None) -> None:
        """Raises UserError where the command line gives `flag` for the second time."""
        if flag in self._given:
            raise UserError(f"{flag} given twice; expected once")
        self._given.add(flag)

    def parse_known_args(self, args=None, namespace=None):
        """As argparse does."""
        self._given.clear()
        return super().parse_known_args(args, namespace)

    def parse_args(self, args=None, namespace=None):
        """As argparse does. Raises UserError for the first thing unknown."""
        namespace, rest = self.parse_known_args(args, namespace)
        for word in rest:
            raise self.unknown(word)
        return namespace

    def unknown(self, word: str) -> UserError:
        """The error for a word of the command line that is no flag, or none of this command's."""
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


def first_look(
    args: list[str] | None, *flags: str, several: Sequence[str] = (), optional: Sequence[str] = ()
) -> argparse.Namespace:
    """The values of some flags of a command line, those of which the other flags depend on.

    `several`: the flags that take more than one value; `optional`: those that may have none ("").
    """
    parser = Parser(add_help=False)
    for flag in flags:
        parser.add_argument(flag)
    for flag in several:
        parser.add_argument(flag, nargs="+")
    for flag in optional:
        parser.add_argument(flag, nargs="?", const="")
    return parser.parse_known_args(args)[0]


class ProblemParser(Parser):
    """A Parser of commands that take --problem; the problem's flags join it when it parses."""

    def __init__(self, description: str, **kwargs):
        super().__init__(description, **kwargs)
        self.add_argument(
            "--problem",
            metavar="NAME",
            help="what to train on; with --help: the options that it takes",
        )
        help = "list all problems, sets and topics, or print what is said of a topic, and exit"
        self.add_argument("--registry_help", nargs="?", const="", metavar="TOPIC", help=help)
        add_usr_dir(self)
        self._problem: str | None = None

    def parse_args(self, args=None, namespace=None):
        """As argparse does, after --registry_help and the flags of --problem. Loads the plugins."""
        look = first_look(args, "--problem", "--usr_dir", optional=["--registry_help"])
        registry.load_plugins(look.usr_dir)
        if look.registry_help is not None:
            print(registry.describe(look.registry_help))
            self.exit()
        if look.problem:
            self._problem = look.problem
            cls = registry.problem_class(look.problem)
            group = self.add_argument_group(f"options of {look.problem}")
            add_options(group, cls, exclude=cls.fixed_fields())
        return super().parse_args(args, namespace)

    def problem(self, args: argparse.Namespace) -> Problem:
        """The problem that the flags describe. Raises UserError where --problem is missing."""
        if not self._problem:
            raise UserError("--problem is missing; --registry_help lists all problems")
        cls = registry.problem_class(self._problem)
        return registry.problem(
            self._problem, **given_options(args, cls, exclude=cls.fixed_fields())
        )

    def unknown(self, word):
        """One that other problems take is not unknown."""
        option = word.partition("=")[0].removeprefix("--")
        takers = registry.takers(option) if word.startswith("--") else []
        if takers and self._problem:
            return registry.takes_no(self._problem, option)
        if takers:
            return UserError(
                f"--{option} is an option of some problems, and --problem is missing; expected one "
                f"that takes it, such as {', '.join(takers[:3])}"
            )
        return super().unknown(word)


def add_run(parser: Parser) -> None:
    """The flags of commands that work on a finished or running training."""
    help = "the run directory of t2t-trainer"
    parser.add_argument("--output_dir", metavar="RUN", required=True, help=help)
    add_usr_dir(parser)


def add_runs(parser: Parser, required: bool = True) -> None:
    """The flags of commands that use trained models."""
    help = "the run directory of t2t-trainer; of several the models work together, as an ensemble"
    parser.add_argument("--output_dir", metavar="RUN", nargs="+", required=required, help=help)
    add_usr_dir(parser)


def add_usr_dir(parser: Parser) -> None:
    """--usr_dir."""
    parser.add_argument(
        "--usr_dir",
        metavar="PATH",
        help="a Python file, or a folder with __init__.py, that registers problems or sets",
    )


def add_search(group) -> None:
    """The flags of commands that search for outputs."""
    add = group.add_argument
    add("--beam_size", type=int, metavar="W", help="hypotheses that grow together; 1: greedy")
    add("--alpha", type=float, metavar="A", help="length penalty ((5 + length) / 6)^A")
    help = "sub-words an output may have beyond its input's"
    add("--extra_length", type=int, metavar="N", help=help)
    help = "let the model write what it likes, where the problem has a grammar"
    add("--unconstrained", action="store_true", help=help)


def add_threads(parser, default: str = "all") -> None:
    """--threads."""
    parser.add_argument("--threads", type=int, metavar="N", help=f"of the CPU (default: {default})")


def log(text: str = "") -> None:
    """Progress and logs go to stderr; results to stdout."""
    print(text, file=sys.stderr, flush=True)


def run(main: Callable[[], None], name: str) -> int:
    """Runs a command and returns its exit code, with one line on stderr where it is not 0.

    2: for a UserError, what the user gave; 1: for what the machine refused on the way.
    """
    streams.prepare()
    # TensorFlow makes a million objects that stay. To go through them, as Python does by default
    # after each few hundred new ones, is a fifth of its import.
    gc.set_threshold(_COLLECT_AFTER)
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow's own start-up talk
    warnings.formatwarning = lambda message, *_, **__: f"{name}: warning: {message}\n"
    try:
        streams.check_utf8(sys.argv[1:])
        main()
        streams.flush_output()
    except UserError as error:
        return _failed(name, error, str(error), 2)
    except BrokenPipeError:  # the reader of our output has gone: `t2t-decoder ... | head`
        streams.discard_output()
        return 141
    except Stopped as error:
        return _failed(name, error, str(error), 128 + error.number)
    except KeyboardInterrupt as error:
        return _failed(name, error, "interrupted", 130)
    except machine_errors() as error:
        return _failed(name, error, reason(error), 1)
    return 0


def _failed(name: str, error: BaseException, text: str, code: int) -> int:
    """Prints what went wrong, with the notes on the exception, in one line."""
    text = "; ".join([text, *getattr(error, "__notes__", [])])
    kind = "" if isinstance(error, KeyboardInterrupt) else "error: "
    print(f"{name}: {kind}{' '.join(text.splitlines())}", file=sys.stderr)
    try:
        streams.flush_output()
    except OSError:
        streams.discard_output()
    return code
