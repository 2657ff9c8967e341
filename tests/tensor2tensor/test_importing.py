"""Runs made of tensor2tensor's own checkpoints give what it gave."""

import json
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import registry
from t2t_lite.arrays import model_variables
from t2t_lite.data.t2t_spelling import Spelling
from t2t_lite.data.t2t_subwords import SubwordTextEncoder
from t2t_lite.data.tokenizer import Vocabularies, load_vocabulary
from t2t_lite.decoding.search import Search, run_search
from t2t_lite.run import Run
from t2t_lite.tensor2tensor.checkpoint import Checkpoint
from t2t_lite.tensor2tensor.importing import import_run
from t2t_lite.tensor2tensor.settings import over_all_symbols, read, smoothing_constant
from t2t_lite.training.step import TrainStep

TRAINED = ["transformer_v1_small", "transformer_v3_small"]
PUBLIC = "public_transformer_test"


class Imported(NamedTuple):
    """A checkpoint's folder in the reference, and its run."""

    folder: Any
    run: Run
    model: Any
    said: list[str]

    def stored(self, name):
        """A file of the reference."""
        file = self.folder / name
        return np.load(file) if file.suffix == ".npy" else json.loads(file.read_text())


def imported(oracle, name, path, **changes) -> Imported:
    folder = oracle / "ckpt" / name
    stored = json.loads((folder / "hparams.json").read_text())
    checkpoint = Checkpoint.open(folder)
    if name == PUBLIC:
        file = oracle.parent / "data/t2t_vocab/vocab.translate_ende_wmt8k.8192.subwords"
        vocabulary = load_vocabulary(file)
    else:
        words = (f"word{i}_" for i in range(65))
        vocabulary = SubwordTextEncoder(Spelling(["<pad>_", "<EOS>_", *words]))
    vocabulary = checkpoint.fitting(vocabulary, stored["values"]["vocab_divisor"])
    registry.load_plugins()
    said = import_run(
        path,
        registry.problem("multi30k_ende"),
        checkpoint,
        Vocabularies(vocabulary, vocabulary, shared=True),
        over_all_symbols(read(stored["values"]), vocabulary.size).replace(**changes),
        stored["hparams_set"],
        target_space_id=stored["problem"]["target_space_id"],
    )
    run = Run.open(path)
    return Imported(folder, run, run.translator().model, said)


@pytest.fixture(scope="module", params=[*TRAINED, "v1_layers3_shard1", PUBLIC])
def checkpoint(request, shared, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / request.param
    return imported(shared / "oracle", request.param, path)


def test_logits_are_tensor2tensors(checkpoint):
    inputs, targets = checkpoint.stored("inputs.npy"), checkpoint.stored("targets.npy")
    inputs, targets = (ids.reshape(len(ids), -1) for ids in (inputs, targets))
    logits = checkpoint.stored("logits.npy")
    np.testing.assert_allclose(
        checkpoint.model(inputs, targets), logits.reshape(*targets.shape, -1), atol=1e-4
    )
    memory = checkpoint.model.encode(inputs).numpy()
    real = inputs != 0  # it leaves other values at padding
    expected = checkpoint.stored("encoder_output.npy").reshape(memory.shape)
    np.testing.assert_allclose(memory[real], expected[real], atol=1e-4)


def test_decodes_are_tensor2tensors(checkpoint):
    """Under its limits, which are of the padded batch; greedy, beam 4, and all four of the beam."""
    inputs = checkpoint.stored("inputs.npy")
    inputs = inputs.reshape(len(inputs), -1)
    if checkpoint.folder.name not in TRAINED:
        pytest.skip("the model has learnt nothing: its choices hang on small differences")
    compared = 0
    for decode in checkpoint.stored("decodes.json")["decodes"].values():
        args, outputs = decode["args"], np.array(decode["outputs"])
        outputs = outputs.reshape(len(inputs), args["top_beams"], -1)
        scores = np.array(decode["scores"]).reshape(len(inputs), -1)
        length = inputs.shape[1] + args["decode_length"]
        search = Search(
            args["beam_size"], args["alpha"], 0, args["top_beams"], sampling=None, constrained=False
        )
        found = run_search(
            *(checkpoint.model, (), None, search, False, checkpoint.model.search_weights()),
            *(tf.constant(inputs), tf.zeros([len(inputs), length], tf.int32)),
            tf.fill([len(inputs)], length),
        )
        for row, best in np.ndindex(*outputs.shape[:2]):
            assert ended(found.ids[row, best].numpy()) == ended(outputs[row, best])
            ours = found.log_probs if args["beam_size"] == 1 else found.scores
            assert float(ours[row, best]) == pytest.approx(scores[row, best], abs=1e-4)
            compared += 1
    assert compared >= 4 * (1 + 1 + 4)


def ended(ids) -> list[int]:
    """Up to the first EOS."""
    ids = ids.tolist()
    return ids[: ids.index(1)] if 1 in ids else [i for i in ids if i]


@pytest.mark.parametrize("name", TRAINED)
def test_updates_are_tensor2tensors(shared, tmp_path, name):
    """Gradients, then 20 updates on a batch, from slots of zero and step 0, without dropout."""
    still = dict(dropout=0.0, attention_dropout=0.0, relu_dropout=0.0)
    found = imported(shared / "oracle", name, tmp_path / "run", **still)
    h = found.run.hparams
    constant = smoothing_constant(0.1, 67)
    inputs, targets = found.stored("inputs.npy"), found.stored("targets.npy")
    inputs, targets = (ids.reshape(len(ids), -1) for ids in (inputs, targets))
    strategy = tf.distribute.get_strategy()
    step = TrainStep(found.model, h, strategy, seed=1, xla=False)
    scale, seed = tf.constant(1.0), tf.constant([1, 0])
    loss, gradients = step.gradients(inputs[None], targets[None], seed, scale)
    checkpoint = Checkpoint.open(found.folder)
    variables = model_variables(found.model)
    stored = dict(np.load(found.folder / "grads_step0.npz"))
    compared = 0
    for (ours, variable), gradient in zip(variables.items(), gradients):
        names = checkpoint.names(ours, variable.shape, h)
        theirs = np.concatenate([stored.pop(name.replace("/", "|")) for name in names])
        if ours == "target_space/vector":
            others = np.delete(theirs, 11, axis=0)
            theirs = theirs[11]
            assert not others.any()
        gradient = gradient.numpy() / float(loss.tokens)
        assert np.abs(gradient - theirs).max() <= 1e-5 * np.abs(theirs).max(), ours
        compared += 1
    assert compared > 60 and stored.keys() <= {"__loss__"}, stored.keys()

    for expected in found.stored("train_steps.json")["steps"]:
        report = step(inputs, targets)
        smoothed = float(report.loss.smoothed / report.loss.tokens) - constant
        assert smoothed == pytest.approx(expected["loss_before_update"], abs=1e-4)
        assert float(report.learning_rate) == pytest.approx(expected["lr"], rel=1e-6)
