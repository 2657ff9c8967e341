"""Flags: those that a problem brings, those of every command, and what is said of wrong ones."""

import dataclasses
import json
import subprocess
import sys

import pytest

from t2t_lite import registry
from t2t_lite.cli import (
    attention,
    avg_all,
    bleu,
    datagen,
    decoder,
    evalb,
    exporter,
    server,
    trainer,
)
from t2t_lite.cli import eval as eval_command
from t2t_lite.errors import UserError
from t2t_lite.evaluation.metrics import Metric

PARSERS = {
    module.__name__.rpartition(".")[2]: module.parser
    for module in (
        attention, avg_all, bleu, datagen, decoder, eval_command, evalb, exporter, server, trainer
    )
}  # fmt: skip
LONG_PAIRS = '''
import dataclasses

from t2t_lite import register_problem
from t2t_lite.data.sources import Filtered
from t2t_lite.problems.translation import TextPairs


@register_problem
@dataclasses.dataclass(frozen=True, kw_only=True)
class LongPairs(TextPairs):
    """Your own pairs of text, but for short ones."""

    min_words: int = 1  # training pairs with fewer words on either side are left out

    def corpus(self, split):
        corpus = super().corpus(split)
        if split != "train":
            return corpus
        return Filtered(corpus, self._is_long, f"pairs of {self.min_words} words or more")

    def _is_long(self, *pair):
        return all(len(text.split()) >= self.min_words for text in pair)
'''
TINY = [
    "--hparams=tiny", "--set=d_model=16", "--set=d_ff=32", "--set=num_heads=2", "--set=d_k=8",
    "--set=d_v=8", "--set=num_encoder_layers=1", "--set=num_decoder_layers=1",
    "--set=num_buckets=1", "--set=batch_tokens=256", "--set=max_length=32", "--set=eval_steps=2",
]  # fmt: skip


@pytest.fixture(autouse=True)
def same_registry(monkeypatch):
    """Leaves the registry as it was."""
    registry.load_plugins()
    for table in ("_problems", "_hparams", "_loaded"):
        monkeypatch.setattr(registry, table, getattr(registry, table).copy())


@pytest.fixture
def long_pairs(tmp_path):
    """The flags that choose a user's own problem."""
    (tmp_path / "long_pairs.py").write_text(LONG_PAIRS, encoding="utf-8")
    return [f"--usr_dir={tmp_path}/long_pairs.py", "--problem=long_pairs"]


@pytest.mark.parametrize("command", [trainer, datagen])
def test_help_shows_the_problems_own_flags(call, refusal, command):
    _, parsing, _ = call(command, "--problem=treebank", "--help")
    _, translation, _ = call(command, "--problem=multi30k_ende_rev", "--help")
    _, none, _ = call(command, "--help")
    assert "options of treebank:" in parsing and "options of multi30k_ende_rev:" in translation
    assert "--silver_per_gold N   silver trees to each gold one in an epoch" in parsing
    assert "--drop_duplicates     of equal training pairs only the first is kept" in translation
    for flag in "--silver", "--tags", "--train PATH":
        assert flag in parsing and flag not in translation and flag not in none
    assert "--data_dir" in translation and "--reverse" not in translation
    assert "with --help: the options" in " ".join(none.split()) and "--vocab" not in none
    said = refusal(command, "--problem=treebnak", "--help")
    assert "unknown problem 'treebnak'; nearest: treebank" in said


def test_help_shows_the_fields_of_the_set(call, refusal):
    code, out, _ = call(trainer, "--hparams=big", "--help")
    assert code == 0 and "fields of hparams set big, for --set:\n" in out
    assert "\n  d_model=1024               width of every sub-layer's output" in out
    code, out, _ = call(trainer, "--help")
    assert code == 0 and "--hparams=SET --help shows them" in out and "d_model" not in out
    said = refusal(trainer, "--hparams=bigg", "--help")
    assert "unknown hparams set 'bigg'; nearest: big" in said


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("--problem=treebank --drop_duplicates", "problem treebank takes no --drop_duplicates; it"),
        ("--problem=text_pairs --tags=kept", "problem text_pairs takes no --tags; it takes --data"),
        (
            "--problem=text_pairs --max_length=3",
            "unknown flag --max_length; nearest: --max_length_",
        ),
        ("--problem=treebank --silvr_per_gold=3", "nearest: --silver_per_gold"),
        ("--problem=treebank --silver_per_gold=few", "--silver_per_gold=few: expected int"),
        ("--problem=treebank --silver_per_gold=0", "--silver_per_gold=0: expected at least 1"),
        ("--problem=treebank --tags=keep", "unknown value of --tags 'keep'; nearest: kept"),
        ("--problem=text_pairs --max_length_ratio=x", "--max_length_ratio=x: expected float"),
        ("--problem=text_pairs --drop_duplicates=yes", "ignored explicit argument 'yes'"),
        ("--problem=text_pairs --vocab_size=x", "--vocab_size=x: expected int"),
        ("--train a.en a.de", "--problem is missing; expected one that takes it, such as text_"),
        ("--problem=text_pairs --reverse", "unknown flag --reverse"),
        ("--problem=text_pairs --hparam=tiny", "unknown flag --hparam; nearest: --hparams"),
        ("--problem=text_pairs --problem=treebank", "--problem given twice; expected once"),
        ("--problem=text_pairs --dev a b --dev c d", "--dev given twice; expected once"),
    ],
)
def test_what_is_said_of_wrong_flags(refusal, flags, expected):
    assert expected in refusal(trainer, *flags.split())


def test_registry_help(call, long_pairs):
    for command in trainer, datagen:
        code, out, err = call(command, "--registry_help", long_pairs[0])
        assert code == 0 and err == ""
        assert "  long_pairs               Your own pairs of text, but for short ones." in out
        assert "  table3 " in out
    code, out, err = call(trainer, "--registry_help=table3")
    assert code == 0 and err == "" and "table3_e_learned" in out


def test_registry_help_of_an_unknown_topic(refusal):
    assert "nearest: table3" in refusal(trainer, "--registry_help=tabel3")


@pytest.mark.parametrize("name", PARSERS)
def test_a_flag_given_twice_is_refused(name):
    def flags(action) -> list[str]:
        values = [str(next(iter(action.choices or "1")))] if action.nargs != 0 else []
        return [action.option_strings[0], *values]

    tried = 0
    for number, action in enumerate(PARSERS[name]()._actions):
        flag = action.option_strings[0]
        if flag in ("-h", "--version"):
            continue
        parser = PARSERS[name]()
        if flag == "--set":  # repeatable, and known as such
            given, _ = parser.parse_known_args(["--set", "a=1", "--set", "b=2"])
            assert given.set == ["a=1", "b=2"]
            continue
        with pytest.raises(UserError) as error:
            parser.parse_known_args(flags(action) * 2)
        assert str(error.value) == f"{flag} given twice; expected once", number
        tried += 1
    assert tried >= 3


def test_no_field_of_a_problem_may_be_named_like_a_flag_of_the_engine():
    flags = {
        option.removeprefix("--")
        for name in ("trainer", "datagen")
        for action in PARSERS[name]()._actions
        for option in action.option_strings
        if option.startswith("--")
    }
    assert registry.ENGINE_FLAGS == flags


def test_a_field_of_a_metric_named_like_a_flag_of_t2t_eval_is_refused():
    @dataclasses.dataclass(frozen=True)
    class Odd(Metric):
        json: bool = False

    with pytest.raises(UserError, match="field json of Odd is named like the flag --json; choose"):
        eval_command.parser(Odd)


def test_a_users_own_field_is_a_flag(call, refusal, long_pairs, tmp_path):
    short, long = ["a b\tx y\n"] * 7, ["one two three\teins zwei drei vier\n"] * 40
    (tmp_path / "train.tsv").write_text("".join(short + long))
    (tmp_path / "dev.tsv").write_text("".join(short[:1] + long[:1]))
    flags = [*long_pairs, f"--train={tmp_path}/train.tsv", f"--dev={tmp_path}/dev.tsv", *TINY]
    flags += [f"--output_dir={tmp_path}/run", f"--data_dir={tmp_path}/data", "--vocab_size=275"]

    code, out, _ = call(trainer, *long_pairs, "--help")
    out = " ".join(out.split())
    assert "--min_words N training pairs with fewer words on either side are left out" in out
    for flag, expected in (
        ("--min_words=x", "--min_words=x: expected int"),
        ("--min_word=3", "unknown flag --min_word; nearest: --min_words"),
    ):
        assert expected in refusal(trainer, *flags, flag)
    assert not (tmp_path / "run").exists() and not (tmp_path / "data").exists()

    code, _, err = call(trainer, *flags, "--min_words=3", "--set=train_steps=2")
    assert code == 0 and "train: 40 pairs from" in err and "pairs of 3 words or more" in err, err
    assert "dev: 2 pairs" in err
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["options"]["min_words"] == 3
    code, _, err = call(trainer, *flags, "--min_words=3", "--set=train_steps=4")
    assert code == 0 and "resuming at step 2" in err, err
    said = refusal(trainer, *flags, "--min_words=2", "--set=train_steps=4")
    assert "holds another run: min_words: 3 -> 2" in said

    (tmp_path / "in").write_text("one two three\n")
    files = f"--input={tmp_path}/in", f"--output={tmp_path}/out"
    code, _, err = call(decoder, f"--output_dir={tmp_path}/run", *files)
    assert code == 0 and (tmp_path / "out").read_text().count("\n") == 1, err
    code, out, err = call(eval_command, f"--output_dir={tmp_path}/run", "--json")
    assert code == 0 and "bleu" in json.loads(out), err


def test_help_imports_nothing_heavy(tmp_path):
    code = """
import sys
from t2t_lite.cli import arguments, trainer
sys.argv = ["t2t-trainer", "--problem=toy_parsing", "--hparams=parsing", "--help"]
try:
    arguments.run(trainer.train, "t2t-trainer")
except SystemExit:
    heavy = {"tensorflow", "keras", "numpy", "sacrebleu", "nltk"} & set(sys.modules)
    sys.exit(f"{heavy}" if heavy else 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "options of toy_parsing:" in done.stdout, done.stderr
