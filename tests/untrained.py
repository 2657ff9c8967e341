"""A run directory whose model has learnt nothing, and an export of it: enough for the commands that read one."""

from pathlib import Path

import keras
import pytest

from t2t_lite.config import HParams
from t2t_lite.data.tokenizer import EOS
from t2t_lite.run import Run
from t2t_lite.training.checkpoints import arrays, model_variables, write_arrays


def untrained_run(path, problem, vocabularies, *, ends: bool = False, **fields) -> Run:
    """Writes a run with the averaged weights of a tiny model, always the same, whose outputs differ.

    They reach their limit of length unless `ends`, with which most of them end in EOS before, some at once. `fields`: other
    fields of its hparams.
    """
    vocabularies.save(path)
    hparams = HParams(
        num_encoder_layers=1,
        num_decoder_layers=2,
        d_model=16,
        d_ff=32,
        num_heads=2,
        d_k=8,
        d_v=8,
        **fields,
    )
    run = Run(path, problem, "none", hparams, seed=1)
    run.save()
    keras.utils.set_random_seed(3)
    model = run.new_model(vocabularies)
    model.set_weights([weight * 1.7 for weight in model.get_weights()])
    if ends:
        shift = model.decoder.layers[-1].feed_forward_residual.layer_norm.beta
        shift.assign(3.5 * model.target_embedding.embeddings[EOS])
    write_arrays(run.averaged, arrays(model_variables(model)), {"step": 0})
    return run


def untrained_export(folder, run: Run, **search) -> Path:
    """Exports a run as `folder`/1 without comparing it with the decoder, and returns `folder`."""
    from t2t_lite.export import saved_model

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saved_model, "_check", lambda *_: None)
        saved_model.export(run, folder, **search)
    return folder
