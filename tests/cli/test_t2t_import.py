"""t2t-import: what it takes and refuses; its runs in the other commands."""

import json
import shutil

import pytest

import t2t_lite
from t2t_lite.cli import decoder, exporter, t2t_import, trainer

PUBLIC = "public_transformer_test"


@pytest.fixture
def flags(shared, tmp_path):
    """Of an import of the checkpoint that came with tensor2tensor, into tmp_path/run."""
    shutil.copytree(shared / "oracle/ckpt" / PUBLIC, tmp_path / "t2t")
    vocab = shared / "data/t2t_vocab/vocab.translate_ende_wmt8k.8192.subwords"
    return {
        "--problem": "multi30k_ende",
        "--raw_dir": shared / "data/multi30k",
        "--data_dir": tmp_path / "data",
        "--vocab": vocab,
        "--checkpoint": tmp_path / "t2t/model.ckpt-1",
        "--output_dir": tmp_path / "run",
    }


def given(flags, **others):
    named = {f"--{name}": value for name, value in others.items()}
    return [f"{name}={value}" for name, value in (flags | named).items() if value is not None]


@pytest.mark.thorough
def test_the_other_commands_take_its_run(call, flags, tmp_path):
    code, out, err = call(t2t_import, *given(flags))
    assert (code, out) == (0, "") and "66 variables" in err and "+ 1.226138" in err, err
    stored = json.loads((tmp_path / "t2t/text.json").read_text())
    source, target = stored["src"], stored["tgt"]
    model = t2t_lite.load(tmp_path / "run")
    assert model.vocabularies.source.encode_lines(source) == stored["src_ids"]
    assert model.vocabularies.target.encode_lines(target) == stored["tgt_ids"]
    lines = "".join(f"{line}\n" for line in source).encode()
    run = f"--output_dir={tmp_path / 'run'}"
    code, out, err = call(decoder, run, stdin=lines)
    assert code == 0 and len(out.splitlines()) == 2, err
    code, out, err = call(exporter, run, f"--export_dir={tmp_path / 'export'}", "--beam_size=2")
    assert code == 0 and "checked against the decoder" in err, err
    code, _, err = call(exporter, run, f"--export_dir={tmp_path / 'c'}", "--format=ctranslate2")
    assert code == 0, err
    about = json.loads((tmp_path / "c/1/metadata.json").read_text())
    assert about["vocabularies"]["source"]["kind"] == "tensor2tensor"


@pytest.mark.thorough
def test_training_goes_on_where_tensor2tensor_ended(call, shared, flags, tmp_path):
    """With its slots and its step; the command is that of a new run with the same fields."""
    source = shared / "oracle/ckpt/transformer_v3_small"
    vocab = tmp_path / "toy.subwords"
    words = ["<pad>_", "<EOS>_", *"\\_u;0123456789abcdefghijklmnopqrstvwxyz", " ", "<", ">"]
    words += [f"word{i}_" for i in range(67 - len(words))]
    vocab.write_text("".join(f"'{word}'\n" for word in words))
    (tmp_path / "pairs").write_text("a b c\tc b a\n" * 50)
    toy = flags | {"--problem": "text_pairs", "--train": tmp_path / "pairs", "--raw_dir": None}
    changed = "--set=batch_tokens=128", "--set=train_steps=1202", "--set=max_length=64"
    code, _, err = call(t2t_import, *given(toy, checkpoint=source, vocab=vocab), *changed)
    assert code == 0 and "Adam's slots and the step came along" in err, err
    fields = json.loads((tmp_path / "run/run.json").read_text())["hparams"]
    same = [f"--set={name}={value}" for name, value in fields.items()]
    code, _, err = call(trainer, *given(toy, checkpoint=None, vocab=None), *same)
    assert code == 0 and "resuming at step 1,200 of 1,202" in err, err


def test_a_set_in_place_of_hparams_json(call, flags, tmp_path):
    (tmp_path / "t2t/hparams.json").unlink()
    code, _, err = call(t2t_import, *given(flags))
    assert code == 2 and "no hparams.json" in err and "--hparams=SET" in err
    sizes = dict(num_encoder_layers=2, num_decoder_layers=2, d_model=16, d_ff=8, num_heads=2)
    sizes |= dict(d_k=8, d_v=8)
    fields = [f"--set={name}={value}" for name, value in sizes.items()]
    code, _, err = call(t2t_import, *given(flags, hparams="transformer_base_v3"), *fields)
    assert code == 0, err
    code, _, err = call(t2t_import, *given(flags, output_dir=tmp_path / "b", hparams="base"))
    assert code == 2 and "missing in all" in err and not (tmp_path / "b").exists(), err


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({"checkpoint": "nothing"}, "no checkpoint there; expected PREFIX"),
        ({"vocab": None}, "--vocab is missing"),
        ({"target_space_id": 32}, "expected 0 to 31"),
        ({"hparams": "transformer_base", "hparams_json": "x"}, "expected one of them"),
    ],
)
def test_mistakes_are_one_line(call, flags, tmp_path, changes, expected):
    code, out, err = call(t2t_import, *given(flags, **changes))
    assert (code, out, err.count("\n")) == (2, "", 1) and expected in err, err
    assert not (tmp_path / "run").exists()


def test_what_is_not_here_is_refused_with_its_value(call, flags, tmp_path):
    file = tmp_path / "t2t/hparams.json"
    record = json.loads(file.read_text())
    record["values"]["max_relative_position"] = 20
    file.write_text(json.dumps(record))
    code, _, err = call(t2t_import, *given(flags))
    assert code == 2 and "tensor2tensor's max_relative_position=20 is not here" in err, err


def test_another_vocabulary_and_a_run_that_exists(call, shared, flags, tmp_path):
    other = shared / "oracle/subword/vocab.256.subwords"
    code, _, err = call(t2t_import, *given(flags, vocab=other))
    assert code == 2 and "257 sub-words, and" in err and "8,190" in err, err
    (tmp_path / "run").mkdir()
    (tmp_path / "run/mine").touch()
    code, _, err = call(t2t_import, *given(flags))
    assert code == 2 and "exists already" in err and (tmp_path / "run/mine").exists()
