"""The fields of HParams that are a model's."""

from t2t_lite.config import HParams
from t2t_lite.layers.fields import model_fields


def test_a_model_keeps_what_shapes_it_and_nothing_of_its_training():
    hparams = HParams(
        d_model=16, norm="pre", relu_dropout=0.3, next_word="given", learning_rate=2.0
    )
    kept = model_fields(hparams)
    assert HParams(**kept) == hparams.replace(learning_rate=HParams().learning_rate)
    assert not {"checkpoint_minutes", "batch_tokens", "label_smoothing", "schedule"} & set(kept)
