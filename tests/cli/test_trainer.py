"""t2t-trainer from its flags to its run directory, and the commands that read it."""

import json
import re
import subprocess
import sys

import pytest
from safetensors.numpy import load_file

from t2t_lite.cli import avg_all, datagen, decoder, trainer
from t2t_lite.cli import eval as eval_command
from t2t_lite.data.tokenizer import Vocabulary
from t2t_lite.run import Run
from t2t_lite.training import micro_batches

FAST = [
    "--hparams=tiny", "--set=d_model=16", "--set=d_ff=32", "--set=num_heads=2", "--set=d_k=8",
    "--set=d_v=8", "--set=batch_tokens=512", "--set=max_length=32", "--set=report_steps=2",
    "--set=eval_steps=4", "--set=checkpoint_steps=2", "--set=average_checkpoints=3",
]  # fmt: skip


def pairs(numbers):
    return [(f"item {n} of the list", f"Punkt {n} der Liste") for n in numbers]


@pytest.fixture
def corpus(tmp_path):
    """--train and --dev of a small corpus."""
    for name, numbers in ("train", range(300)), ("dev", range(300, 320)):
        for side, language in enumerate(("en", "de")):
            lines = "".join(f"{pair[side]}\n" for pair in pairs(numbers))
            (tmp_path / f"{name}.{language}").write_text(lines, encoding="utf-8")
    files = {
        split: [tmp_path / f"{split}.{language}" for language in ("en", "de")]
        for split in ("train", "dev")
    }
    return ["--train", *files["train"], "--dev", *files["dev"]]


def test_trains_resumes_averages_decodes_and_evaluates(call, corpus, tmp_path):
    run = tmp_path / "run"
    flags = [
        "--problem=text_pairs",
        *corpus,
        "--vocab_size=310",
        f"--data_dir={tmp_path}/data",
        *FAST,
        f"--output_dir={run}",
    ]
    code, out, err = call(trainer, *flags, "--set=train_steps=6")
    assert code == 0 and out == "", err
    assert (
        "parameters" in err
        and "step 6/6" in err
        and "dev at step 4" in err
        and "averaged 3 checkpoints" in err
    )
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    assert [entry["step"] for entry in log if entry["kind"] == "train"] == [1, 2, 4, 6]
    assert {"loss", "perplexity", "bleu"} <= {entry["kind"]: entry for entry in log}[
        "dev_final"
    ].keys()

    code, _, err = call(trainer, *flags, "--set=train_steps=8")
    assert code == 0 and "resuming at step 6" in err and "step 8/8" in err
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == [
        f"step-{n:08}" for n in (4, 6, 8)
    ]

    code, out, _ = call(avg_all, f"--output_dir={run}", "--n=2")
    assert code == 0 and out.strip() == str(run / "averaged.safetensors")

    code, out, _ = call(
        eval_command, f"--output_dir={run}", "--json", f"--per_line={tmp_path}/lines.jsonl"
    )
    figures = json.loads(out)
    assert figures["perplexity"] > 1 and 0 <= figures["accuracy"] <= 1 and "bleu" in figures
    lines = [json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines()]
    assert [line["line"] for line in lines] == list(range(1, 21))
    assert sum(line["log_prob"] for line in lines) == pytest.approx(
        -figures["loss"] * figures["tokens"], rel=1e-4
    )

    import t2t_lite

    model = t2t_lite.load(run)
    for number, scored in enumerate(model.score(pairs(range(300, 320)))):
        assert scored.log_prob == pytest.approx(lines[number]["log_prob"], abs=1e-3)
    [[best]] = model.translate(["item 300 of the list"])
    assert best.text == lines[0]["output"] and best.score == pytest.approx(
        lines[0]["output_score"], abs=1e-3
    )

    code, out, err = call(trainer, *flags, "--set=dropout=0.3")
    assert code == 2 and "dropout: 0.05 -> 0.3" in err and err.count("\n") == 1
    other = tmp_path / "other.model"
    Vocabulary.train([f"item {n}" for n in range(300)], 290).save(other)
    code, out, err = call(trainer, *flags, "--set=train_steps=8", f"--vocab={other}")
    assert code == 2 and "other.model: not the vocabulary that" in err


def test_trains_on_packed_rows(call, corpus, tmp_path):
    run, data = tmp_path / "run", [*corpus, "--vocab_size=310", f"--data_dir={tmp_path}/data"]
    flags = ["--problem=text_pairs", *data, *FAST, f"--output_dir={run}"]
    code, _, err = call(trainer, *flags, "--set=packing=True", "--set=train_steps=6")
    assert code == 0 and "step 6/6" in err, err
    [rows] = [line for line in err.splitlines() if line.startswith("rows  ")]
    assert "  32/32: 16   (source/target length: rows of several)" in rows
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    first = next(entry for entry in log if entry["kind"] == "train")
    assert first["padding"] < 0.2 and first["target_tokens"] > 300  # in 16 rows
    code, _, err = call(trainer, *flags, "--set=packing=True", "--set=train_steps=7")
    assert code == 0 and "resuming at step 6" in err and "step 7/7" in err, err
    code, _, err = call(trainer, *flags, "--set=train_steps=8")
    assert code == 2 and "packing: true -> false; choose another" in err
    code, out, err = call(trainer, "--problem=text_pairs", *data, "--set=packing=True", "--dry_run")
    assert code == 0 and "rows        of several pairs, at most 2 shapes of up to 256" in out, err
    assert "batch       25,000 tokens a side at most in one update = 1 replicas x" in out


def test_trains_a_parser(call, tmp_path):
    """On gold trees, of which one is broken, and silver ones."""
    tree = "( (S (NP-SBJ (DT the) (NN cat))\n    (VP (VBD slept))\n    (. .)))\n"
    (tmp_path / "gold.mrg").write_text(tree * 40 + "( (S (NP\n")
    (tmp_path / "dev.trees").write_text(tree)
    (tmp_path / "silver.trees").write_text("(TOP (S (NP (NN rain)) (VP (VBD fell)) (. .)))\n" * 90)
    files = [
        f"--{name}={tmp_path}/{file}"
        for name, file in (("train", "gold.mrg"), ("dev", "dev.trees"), ("silver", "silver.trees"))
    ]
    flags = [
        "--problem=treebank",
        *files,
        "--silver_per_gold=2",
        "--skip_bad_trees",
        "--vocab_size=280",
        *FAST,
    ]
    flags += [
        "--set=next_word=given",
        "--set=train_steps=4",
        f"--data_dir={tmp_path}/data",
        f"--output_dir={tmp_path}/run",
    ]
    code, _, err = call(trainer, *flags)
    assert code == 0, err
    assert "train: 40 pairs from" in err and "train: left out: broken trees: 1" in err
    assert "train: 90 pairs from" in err and "train: 135 pairs an epoch" in err
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    final = {entry["kind"]: entry for entry in log}["dev_final"]
    assert final["valid"] == final["well_formed"] == 100 and 0 <= final["f1"] <= 100
    code, _, err = call(trainer, *flags, "--set=train_steps=6")
    assert code == 0 and "resuming at step 4" in err, err


@pytest.mark.thorough
def test_data_that_changed_are_noticed(call, corpus, tmp_path):
    """However they did; where they lie is another matter."""
    flags = [
        "--problem=text_pairs",
        *corpus,
        "--vocab_size=310",
        f"--data_dir={tmp_path}/data",
        *FAST,
        "--set=average_checkpoints=1",
        f"--output_dir={tmp_path}/run",
    ]
    assert call(trainer, *flags, "--set=train_steps=2")[0] == 0
    train, german = tmp_path / "train.en", tmp_path / "train.de"
    before = {path: path.read_text() for path in (train, german)}

    def refused(*more):
        code, _, err = call(trainer, *flags, "--set=train_steps=4", *more)
        assert code == 2 and "step" not in err, err
        return err.splitlines()[-1]

    german.write_text(before[german].replace("Punkt 5 der Liste\n", ""))
    assert "train.en has 300" in refused() and "train.de has 299" in refused()
    train.write_text(before[train].replace("item 5 of the list\n", ""))
    assert "300 -> 299 pairs" in refused() and "--data_changed=continue" in refused()
    for path, text in before.items():
        path.write_text(text.replace(" 5 ", " 4 "))
    assert "other text of the same length" in refused()
    (tmp_path / "dev.de").write_text("x\n" * 20)
    for path, text in before.items():
        path.write_text(text)
    assert "dev: " in refused()

    moved = tmp_path / "moved"
    moved.mkdir()
    for name, numbers in ("train", range(300)), ("dev", range(300, 320)):
        for side, language in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in pairs(numbers))
            (moved / f"{name}.{language}").write_text(text)
    there = [str(flag).replace(f"{tmp_path}/", f"{moved}/") for flag in corpus]
    others = [flag for flag in flags if flag not in corpus and "data_dir" not in str(flag)]
    code, _, err = call(trainer, *others, *there, f"--data_dir={moved}/data", "--set=train_steps=4")
    assert code == 0 and "resuming at step 2 of 4, epoch 1" in err, err

    german.write_text(before[german].replace("Liste", "Reihe"))
    code, _, err = call(trainer, *flags, "--set=train_steps=6", "--data_changed=continue")
    assert code == 0 and "from epoch 2's start on" in err, err
    code, _, err = call(trainer, *flags, "--set=train_steps=8")  # it is that run's data now
    assert code == 0 and "resuming at step 6 of 8, epoch 2" in err, err


def test_pairs_that_are_too_long_are_said(call, corpus, tmp_path):
    """On the screen, with a warning where they are many."""
    flags = ["--problem=text_pairs", *corpus, "--vocab_size=310", f"--data_dir={tmp_path}/data"]
    sizes = [*FAST, "--set=max_length=8", "--set=train_steps=1", f"--output_dir={tmp_path}/run"]
    code, _, err = call(trainer, *flags, *sizes)
    [line] = [line for line in err.splitlines() if line.startswith("left out")]
    assert code == 0 and re.fullmatch(
        r"left out    warning: (\d+) of 300 pairs \(\d+\.\d\d%\), longer than max_length=8", line
    )


@pytest.mark.thorough
def test_deterministic_runs_are_equal_to_the_bit(corpus, tmp_path):
    """In a process of its own, since TensorFlow stays deterministic once it was told to be."""
    code = "import sys; from t2t_lite.cli import arguments, trainer\n"
    flags = [
        "--problem=text_pairs",
        *corpus,
        "--vocab_size=310",
        f"--data_dir={tmp_path}/data",
        *FAST,
        "--deterministic",
    ]
    for name in "first", "second":
        command = [
            "t2t-trainer",
            *map(str, flags),
            "--set=train_steps=4",
            f"--output_dir={tmp_path}/{name}",
        ]
        code += f"sys.argv = {command}; assert arguments.run(trainer.train, 't2t-trainer') == 0\n"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    first, second = (
        {
            (file.relative_to(run), name): array.tobytes()
            for file in run.rglob("*.safetensors")
            for name, array in load_file(file).items()
        }
        for run in (tmp_path / "first", tmp_path / "second")
    )
    assert first == second and len({file for file, _ in first}) > 4


def test_too_little_memory_is_known_before_there_are_weights(call, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(micro_batches, "available_memory", lambda: 90 << 20)
    monkeypatch.setattr(Run, "new_model", lambda *_: pytest.fail("a model was made"))
    flags = ["--problem=text_pairs", *corpus, "--vocab_size=310", f"--data_dir={tmp_path}/data"]
    flags += [*FAST, f"--output_dir={tmp_path}/run"]
    for more in [], ["--dry_run"]:
        code, out, err = call(trainer, *flags, *more)
        told = err.splitlines()[-1]
        assert (code, out) == (2, ""), err
        assert "GiB besides TensorFlow, and there are 0.1 GiB; expected more memory" in told


def test_dry_run_writes_nothing(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(trainer, "--problem=wmt14_ende", "--hparams=big", "--dry_run")
    assert code == 0, err
    assert "214," in out and "37,000 x 1,024" in out and "GiB" in out and "300,000" in out
    assert "cost        about 9.7e+18 floating-point operations" in out
    code, out, err = call(trainer, "--problem=toy_parsing", "--hparams=parsing", "--dry_run")
    assert code == 0 and " and 100 sub-words" in out and "  100 x 1,024" in out, err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--problem=multi30k_endee"], "multi30k_ende"),
        (["--problem=multi30k_ende", "--hparams=smal"], "nearest: small"),
        (["--problem=multi30k_ende", "--set=dropot=0.1"], "nearest: dropout"),
        (["--problem=multi30k_ende", "--set=dropout=much"], "expected float"),
        (["--problem=multi30k_ende", "--set=dropout"], "expected name=value"),
        (["--problem=multi30k_ende", "--set=d_model=0"], "more than 0"),
        (["--problem=multi30k_ende", "--set=schedule=cosin"], "nearest: cosine"),
        (["--problem=multi30k_ende", "--hparams=parsing_small"], "expected a parsing problem"),
        (["--problem=multi30k_ende", "--dropout=0.1"], "unknown flag --dropout"),
        (["--problme=multi30k_ende"], "nearest: --problem"),
        (["--problem=multi30k_ende", "--xla=yes"], "'auto', 'on', 'off'"),
        (["--problem=multi30k_ende", "--train", "a.en", "a.de"], "takes no --train"),
        (["--problem=multi30k_ende"], "needs --raw_dir"),
        (["--problem=multi30k_ende", "--raw_dir=nowhere"], "nowhere: no such folder"),
        (["--problem=text_pairs", "--train", "none.en", "none.de"], "none.en"),
        (["--problem=text_pairs"], "give --train"),
        (["--problem=text_pairs", "--vocab_size=0"], "more than 0"),
        (["--problem=text_pairs", "--logical_devices=0"], "expected at least 1"),
        (["--problem=text_pairs", "--seed=-1"], "expected 0 to"),
        (["--hparams=base"], "--problem is missing"),
        (["--problem=multi30k_ende", "--hparams_set=base"], "here it is --hparams"),
        (["--problem=multi30k_ende", "--model=transformer"], "there is one model"),
        (["--problem=multi30k_ende", "--t2t_usr_dir=x"], "--usr_dir"),
        (["--problem=multi30k_ende", "--worker_gpu=8"], "all visible GPUs"),
        (["--problem=multi30k_ende", "--usr_dir=missing.py"], "no such file"),
        (["stray"], "unexpected argument 'stray'"),
    ],
)
def test_bad_input_is_one_line_with_exit_code_2(refusal, tmp_path, monkeypatch, flags, expected):
    monkeypatch.chdir(tmp_path)
    assert expected in refusal(trainer, *flags)
    assert list(tmp_path.iterdir()) == []


def test_bad_data_is_named_by_file_and_line_and_nothing_is_written(call, corpus, tmp_path):
    run = tmp_path / "run"
    flags = [
        "--problem=text_pairs",
        *corpus,
        f"--data_dir={tmp_path}/data",
        *FAST,
        f"--output_dir={run}",
    ]
    with open(tmp_path / "train.de", "ab") as file:
        file.write(b"one line more\n")
    code, _, err = call(trainer, *flags)
    assert code == 2 and "300" in err and "301" in err and "train.de" in err
    (tmp_path / "train.de").write_bytes(b"gut\n" * 299 + b"schlecht \xff\n")
    code, _, err = call(trainer, *flags)
    assert code == 2 and "train.de:300" in err and "0xff" in err
    assert not run.exists() and not (tmp_path / "data").exists()


@pytest.mark.parametrize("command", [decoder, eval_command, avg_all])
def test_a_run_directory_that_is_none(call, tmp_path, command):
    (tmp_path / "run1").mkdir()
    (tmp_path / "run1" / "run.json").write_text("{}")
    code, _, err = call(command, f"--output_dir={tmp_path}/run2")
    assert code == 2 and "no run.json" in err and "run1" in err
    code, _, err = call(command, f"--output_dir={tmp_path}/run1")
    assert code == 2 and "not a run" in err


def test_an_occupied_directory_is_left_alone(refusal, corpus, tmp_path):
    def refused(folder):
        return refusal(trainer, "--problem=text_pairs", *corpus, f"--output_dir={folder}")

    assert "not empty and no run (dev.de, dev.en, train.de)" in refused(tmp_path)
    assert "train.en is a file; expected a folder" in refused(tmp_path / "train.en" / "run")
    flag = f"--data_dir={tmp_path / 'train.en'}", f"--output_dir={tmp_path / 'run'}"
    for command in (datagen, trainer):
        more = flag if command is trainer else flag[:1]
        assert "a file; expected a folder" in refusal(
            command, "--problem=text_pairs", *corpus, *more
        )
    assert len(list(tmp_path.iterdir())) == 4


REWRITING = """
import t2t_lite
from t2t_lite.data.sources import MissingSplit, TextFiles
from t2t_lite.problems.translation import TranslationProblem


@t2t_lite.register_problem
class RewritingEnde(TranslationProblem):
    \"\"\"Changes what goes in, what comes out and what that is compared with.\"\"\"

    source_language, target_language = "en", "de"

    def corpus(self, split):
        if split == "test":
            raise MissingSplit("no test split")
        return TextFiles(f"{self.raw_dir}/{split}.en", f"{self.raw_dir}/{split}.de")

    def input_text(self, line):
        return line.upper()

    def output_text(self, text, line):
        return f"punkt {line.split()[1]} x {text[:9]}"

    def reference_text(self, reference):
        return reference.lower()

    def category(self, line):
        return "even" if int(line.split()[1]) % 2 == 0 else "odd"
"""


def test_the_trainers_last_evaluation_is_that_of_t2t_eval(call, corpus, tmp_path):
    """For a problem of a user's own too, whatever it changes in the texts."""
    (tmp_path / "mine.py").write_text(REWRITING, encoding="utf-8")
    run = tmp_path / "run"
    flags = [f"--usr_dir={tmp_path}/mine.py", "--problem=rewriting_ende", f"--raw_dir={tmp_path}"]
    sizes = ["--vocab_size=310", f"--data_dir={tmp_path}/data", *FAST, "--set=train_steps=4"]
    code, _, err = call(trainer, *flags, *sizes, f"--output_dir={run}")
    assert code == 0, err
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    [final] = [entry for entry in log if entry["kind"] == "dev_final"]
    figures = json.loads(call(eval_command, f"--output_dir={run}", "--json")[1])
    assert figures == pytest.approx({name: final[name] for name in figures}, rel=1e-5)
    assert figures["bleu"] > 5 and {"bleu/even", "bleu/odd"} <= figures.keys()
