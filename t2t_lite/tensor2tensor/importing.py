"""A run directory of a checkpoint of tensor2tensor's."""

from pathlib import Path

import keras
import numpy as np

from t2t_lite.arrays import write_arrays
from t2t_lite.checkpoints import MODEL, TRAINING
from t2t_lite.config import HParams
from t2t_lite.data.tokenizer import Vocabularies
from t2t_lite.errors import UserError
from t2t_lite.problem import Constrained, Problem
from t2t_lite.run import Run
from t2t_lite.tensor2tensor.checkpoint import Checkpoint


def import_run(
    path: Path,
    problem: Problem,
    checkpoint: Checkpoint,
    vocabularies: Vocabularies,
    hparams: HParams,
    hparams_set: str,
    *,
    target_space_id: int = 0,
    usr_dir: str | None = None,
) -> list[str]:
    """Writes the run: weights, vocabularies, hparams; Adam's slots and the step, if there are any.

    Args:
        path: of the run, which does not exist yet.
        problem: Problem.
        checkpoint: Checkpoint.
        vocabularies: with as many symbols as the checkpoint's matrices have.
        hparams: HParams of the model and its training.
        hparams_set: the name that run.json gives them.
        target_space_id: the row of tensor2tensor's embedding of target spaces.
        usr_dir: what registers the problem.

    Returns:
        What was taken, in words.

    Raises UserError where the checkpoint is of another model, and for a problem with a grammar.
    """
    run = Run(path, problem, hparams_set, hparams, seed=1, usr_dir=usr_dir)
    if isinstance(problem, Constrained):
        raise UserError(
            f"problem {problem.name} has a grammar of whole words, and tensor2tensor's sub-words "
            "are none; expected a problem of free texts, such as text_pairs"
        )
    shapes = _shapes(run, vocabularies)
    model = checkpoint.read(shapes, hparams, target_space_id)
    about = {"step": checkpoint.step}
    path.mkdir(parents=True)
    vocabularies.save(path)
    run.save()
    said = [f"{len(model)} variables of {checkpoint.prefix}, step {checkpoint.step:,}"]
    if not checkpoint.has_slots:
        write_arrays(run.averaged, model, about)
        return [*said, "no slots of Adam's are there: go on with --init_from"]
    training = checkpoint.read_slots(shapes, hparams, target_space_id) | {
        "step": np.array(checkpoint.step, np.int64),
        "loss_scale": np.array(1, np.float32),
        "good_updates": np.array(0, np.int64),
    }
    folder = path / "checkpoints" / f"step-{checkpoint.step:08d}"
    folder.mkdir(parents=True)
    # It begins with the first epoch, for where tensor2tensor was in its data is nowhere.
    about |= {"position": {"epoch": 0}, "interim": False}
    write_arrays(folder / MODEL, model, about)
    write_arrays(folder / TRAINING, training, about)
    return [*said, "Adam's slots and the step came along"]


def _shapes(run: Run, vocabularies: Vocabularies) -> dict[str, tuple[int, ...]]:
    """Of the variables of the run's model, which are not made."""
    with keras.StatelessScope(initialize_variables=False):
        model = run.new_model(vocabularies)
        found = {v.path.partition("/")[2]: tuple(v.shape) for v in model.variables}
    keras.utils.clear_session()  # forgets the variables that wait for their values
    return found
