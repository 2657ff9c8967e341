"""The column of JoeyNMT 2: its model, its loss and its search, in float32."""

from types import SimpleNamespace

import torch
from answering import Job
from joeynmt.batch import Batch
from joeynmt.builders import build_optimizer
from joeynmt.model import build_model
from joeynmt.search import search
from joeynmt.vocabulary import Vocabulary

JOB = Job(["training", "decoding"])
UNK, PAD, BOS, EOS = range(4)  # as it has them


def make_model():
    """Post-norm, all embeddings tied, as the paper has it."""
    h = JOB.hparams
    names = {"pad": "<pad>", "eos": "</s>", "bos": "<s>", "unk": "<unk>", "sep": None}
    special = SimpleNamespace(
        **{f"{name}_token": token for name, token in names.items()},
        pad_id=PAD, eos_id=EOS, bos_id=BOS, unk_id=UNK, sep_id=None, lang_tags=[],
    )  # fmt: skip
    tokens = [f"t{i}" for i in range(JOB.vocabulary - 4)]
    vocabulary = Vocabulary(tokens, special)

    def side(name):
        return {
            "type": "transformer",
            "num_layers": h[f"num_{name}_layers"],
            "num_heads": h["num_heads"],
            "hidden_size": h["d_model"],
            "ff_size": h["d_ff"],
            "dropout": h["dropout"],
            "layer_norm": "post",
            "embeddings": {"embedding_dim": h["d_model"], "scale": True, "dropout": h["dropout"]},
        }

    both = {"encoder": side("encoder"), "decoder": side("decoder")}
    model = build_model(both | {"tied_embeddings": True, "tied_softmax": True}, *[vocabulary] * 2)
    model.loss_function = "crossentropy", h["label_smoothing"]
    return model


def symbols(ids):
    """Its ids for those that all columns get: 0 is padding there, and 1 EOS."""
    ids = torch.from_numpy(ids).long()
    return torch.where(ids == 0, PAD, torch.where(ids == 1, EOS, ids.clamp(min=4)))


def batch(inputs, targets=None):
    """One of JoeyNMT's."""
    source = symbols(inputs)
    if targets is not None:
        targets = torch.nn.functional.pad(symbols(targets), (1, 0), value=BOS)
    lengths, indices = (source != PAD).sum(1), torch.arange(len(source))
    return Batch(
        source, lengths, None, targets, None, indices, torch.device("cpu"), PAD, EOS,
        is_train=targets is not None,
    )  # fmt: skip


def train():
    """-> a function that trains on a batch, as its TrainManager does."""
    model = make_model()
    model.train()
    options = {"optimizer": "adam", "learning_rate": 1e-4, "adam_betas": [0.9, 0.98]}
    adam = build_optimizer(options, model.parameters())

    def update(inputs, targets):
        adam.zero_grad()
        made = batch(inputs, targets)
        loss = model(return_type="loss", **vars(made))[0] / made.ntokens
        loss.backward()
        adam.step()
        loss.item()

    return update


def make_search(beam):
    """-> a function of sources; for each output whether a place has a symbol."""
    model = make_model()
    model.eval()
    limits = {"max_output_length": JOB.steps, "min_output_length": JOB.steps}
    how = dict(beam_size=beam, beam_alpha=0.6, **limits)
    return lambda sources: search(model, batch(sources), **how)[0] != PAD


def main():
    """Trains or searches when asked to."""
    torch.set_num_threads(JOB.args.threads)

    def product(m, k, n):
        factors = [torch.randn(shape) for shape in ((m, k), (k, n))]
        return lambda: torch.matmul(*factors)[0, 0].item()

    if JOB.args.part == "decoding":
        JOB.decode(make_search, product)
    else:
        JOB.train(train(), product)


if __name__ == "__main__":
    main()
