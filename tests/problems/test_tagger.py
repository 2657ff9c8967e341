"""A third kind of task, a label a word, in a user's own file: no file of the engine knows of it."""

import json
import sys

import pytest

from t2t_lite import registry
from t2t_lite.cli import arguments, decoder, trainer
from t2t_lite.cli import eval as eval_command

TAGGER = '''
import dataclasses
import random

from t2t_lite import Problem, register_problem
from t2t_lite.data.sources import Generated
from t2t_lite.evaluation.metrics import Metric
from t2t_lite.problem import Decoding

WORDS = {"NUMBER": "one two three seven", "THING": "house tree boat", "DEED": "sees lifts"}


@dataclasses.dataclass(frozen=True)
class Accuracy(Metric):
    """Labels that are right."""

    uncounted: str = ""  # a label whose words are left out

    def __call__(self, outputs, references):
        """`label_accuracy`, `all_right`."""
        pairs = [(a.split(), b.split()) for a, b in zip(outputs, references, strict=True)]
        right = [
            i < len(out) and out[i] == label
            for out, labels in pairs
            for i, label in enumerate(labels)
            if label != self.uncounted
        ]
        equal = sum(out == labels for out, labels in pairs)
        return {
            "label_accuracy": 100 * sum(right) / len(right),
            "all_right": 100 * equal / len(pairs),
        }


@register_problem
@dataclasses.dataclass(frozen=True, kw_only=True)
class Tagger(Problem):
    """What kind of word each word is."""

    longest: int = 5  # words in a sentence

    shared_vocabulary = False
    target_subword_model = "word"
    default_vocab_size = 280
    decoding = Decoding(beam_size=1, alpha=0.0, extra_length=0)
    metric = Accuracy

    def source(self, split):
        return Generated(lambda: self._sentences(split), f"tagged {split}, {self.longest} words")

    def _sentences(self, split):
        draw = random.Random(split)
        for _ in range({"train": 300}.get(split, 20)):
            labels = draw.choices(list(WORDS), k=draw.randint(1, self.longest))
            yield " ".join(draw.choice(WORDS[label].split()) for label in labels), " ".join(labels)
'''
TINY = [
    "--hparams=tiny", "--set=d_model=16", "--set=d_ff=32", "--set=num_heads=2", "--set=d_k=8",
    "--set=d_v=8", "--set=num_encoder_layers=1", "--set=num_decoder_layers=1",
    "--set=num_buckets=1", "--set=batch_tokens=256", "--set=max_length=16",
    "--set=train_steps=4", "--set=eval_steps=4",
]  # fmt: skip


@pytest.fixture(scope="module")
def command():
    """Runs a command in this process, whose registry is left as it was: its exit code."""
    registry.load_plugins()
    with pytest.MonkeyPatch.context() as patch:
        for table in ("_problems", "_hparams", "_loaded"):
            patch.setattr(registry, table, getattr(registry, table).copy())

        def run(main, *args):
            patch.setattr(sys, "argv", ["command", *map(str, args)])
            try:
                return arguments.run(main, "command")
            except SystemExit as exit:  # --help
                return exit.code

        yield run


@pytest.fixture(scope="module")
def run(command, tmp_path_factory):
    """A run directory of four updates."""
    folder = tmp_path_factory.mktemp("tagger")
    (folder / "tagger.py").write_text(TAGGER, encoding="utf-8")
    flags = [f"--usr_dir={folder}/tagger.py", "--problem=tagger", *TINY, "--longest=3"]
    flags += [f"--data_dir={folder}/data", f"--output_dir={folder}/run"]
    assert command(trainer.train, *flags) == 0
    return folder / "run"


def test_trains_by_its_own_metric(run):
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    final = {entry["kind"]: entry for entry in log}["dev_final"]
    assert 0 <= final["all_right"] <= final["label_accuracy"] <= 100
    assert json.loads((run / "run.json").read_text())["options"]["longest"] == 3


def test_decodes(command, run, tmp_path):
    (tmp_path / "in").write_text("three boats\nhouse\n")
    files = f"--input={tmp_path}/in", f"--output={tmp_path}/out"
    assert command(decoder.decode, f"--output_dir={run}", *files) == 0
    labels = (tmp_path / "out").read_text().splitlines()
    assert len(labels) == 2 and set(" ".join(labels).split()) <= {"NUMBER", "THING", "DEED"}


def test_is_evaluated_by_its_own_metric(command, run, capsys):
    flags = f"--output_dir={run}", "--json", "--uncounted=DEED"
    assert command(eval_command.evaluate, *flags) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["uncounted"] == "DEED" and 0 <= figures["label_accuracy"] <= 100
    assert command(eval_command.evaluate, f"--output_dir={run}", "--help") == 0
    assert "a label whose words are left out" in capsys.readouterr().out
    assert command(eval_command.evaluate, f"--output_dir={run}", "--uncountd=DEED") == 2
    assert "unknown flag --uncountd; nearest: --uncounted" in capsys.readouterr().err
