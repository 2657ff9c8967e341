"""A run directory whose model has learnt nothing: enough for the commands that read one."""

import keras

from t2t_lite.config import HParams
from t2t_lite.run import Run
from t2t_lite.training.checkpoints import arrays, model_variables, write_arrays


def untrained_run(path, problem, vocabularies) -> Run:
    """Writes a run with the averaged weights of a tiny model, always the same."""
    vocabularies.save(path)
    hparams = HParams(num_encoder_layers=1, num_decoder_layers=1, d_model=8, d_ff=16, num_heads=1, d_k=8, d_v=8)
    run = Run(path, problem, "none", hparams, seed=1)
    run.save()
    keras.utils.set_random_seed(1)
    write_arrays(run.averaged, arrays(model_variables(run.new_model(run.vocabularies()))), {"step": 0})
    return run
