"""HParams: types, bounds, overrides and differences."""

import dataclasses
import inspect
import json

import pytest

from t2t_lite.config import HParams
from t2t_lite.errors import UserError


def test_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        HParams().d_model = 3


def test_override_is_typed():
    hparams = HParams().override(
        ["d_model=256", "dropout=0", "norm=pre", "train_steps=1e4", "batch_tokens=4_096"]
    )
    assert (hparams.d_model, hparams.dropout, hparams.norm) == (256, 0.0, "pre")
    assert (hparams.train_steps, hparams.batch_tokens) == (10_000, 4096)
    assert type(hparams.dropout) is float and type(hparams.train_steps) is int


def test_replace_makes_whole_numbers_floats():
    assert type(HParams().replace(learning_rate=2).learning_rate) is float


@pytest.mark.parametrize(
    "assignment, message",
    [
        ("d_modle=256", "unknown hparams field 'd_modle'; nearest: d_model"),
        ("d_model", "expected name=value"),
        ("d_model=wide", "expected int for d_model, got 'wide'"),
        ("d_model=1.5", "expected int for d_model, got '1.5'"),
        ("d_model=0", "d_model=0: expected more than 0"),
        ("dropout=1", "dropout=1.0: expected at least 0 and less than 1"),
        ("dropout=nan", "dropout=nan: expected at least 0 and less than 1"),
        ("learning_rate=nan", "learning_rate=nan: expected more than 0"),
        ("learning_rate=high", "expected float for learning_rate, got 'high'"),
        ("norm=prenorm", "unknown value of norm 'prenorm'; nearest: pre"),
        ("train_steps=inf", "expected int for train_steps, got 'inf'"),
    ],
)
def test_bad_override_is_one_line(assignment, message):
    with pytest.raises(UserError) as error:
        HParams().override([assignment])
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "field, message",
    [
        ("encoder_layer=convolution", "expected encoder_layer=self_attention, or packing=False"),
        ("encoder_layer=recurrent", "packing=True with encoder_layer=recurrent"),
        ("encoder_layer=restricted_self_attention", "expected encoder_layer=self_attention"),
        ("next_word=given", "packing=True with next_word=given: expected next_word=counted"),
    ],
)
def test_packing_only_where_pairs_in_a_row_are_told_apart(field, message):
    assert HParams().override(["packing=True"]).packing
    HParams().override([field])
    with pytest.raises(UserError) as error:
        HParams().override(["packing=True", field])
    assert message in str(error.value) and "\n" not in str(error.value)


def test_zero_where_it_means_none():
    hparams = HParams().replace(warmup_steps=0, average_checkpoints=0)
    assert (hparams.warmup_steps, hparams.average_checkpoints) == (0, 0)


def test_dictionary_and_differences():
    base = HParams()
    small = base.replace(d_model=256, norm="pre")
    assert HParams(**json.loads(json.dumps(small.to_dict()))) == small
    assert base.differences(small) == ["d_model: 512 -> 256", 'norm: "post" -> "pre"']
    assert base.differences(base) == []


def test_every_field_has_its_comment_on_its_line_and_is_described():
    lines = inspect.getsource(HParams).splitlines()
    text = HParams().replace(norm="pre").describe()
    for field in dataclasses.fields(HParams):
        [line] = [line for line in lines if line.strip().startswith(f"{field.name}:")]
        comment = line.partition("  # ")[2]
        assert comment and len(line) <= 100, field.name
        [shown] = [line for line in text.splitlines() if line.startswith(f"  {field.name}=")]
        assert shown.endswith(comment)
    assert "\n  norm=pre                   post or pre: " in text
