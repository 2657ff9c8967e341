"""The columns of PyTorch: nn.Transformer as its documentation uses it, with the paper's settings.

Post-norm, tied embeddings, sinusoids, label smoothing and Adam as t2t_lite has them.
"""

import contextlib
import math

import torch
from answering import Job
from torch import nn

JOB = Job(["training"])


class Model(nn.Module):
    """Ids in, logits out."""

    def __init__(self, h: dict, symbols: int):
        super().__init__()
        self.width = h["d_model"]
        self.embedding = nn.Embedding(symbols, self.width, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=self.width**-0.5)
        self.dropout = nn.Dropout(h["dropout"])
        self.transformer = nn.Transformer(
            self.width,
            h["num_heads"],
            h["num_encoder_layers"],
            h["num_decoder_layers"],
            h["d_ff"],
            h["dropout"],
            batch_first=True,
        )
        positions = torch.arange(h["max_length"])[:, None]
        angles = positions / 10000 ** (torch.arange(0, self.width, 2) / self.width)
        encoding = torch.stack([angles.sin(), angles.cos()], dim=-1).reshape(-1, self.width)
        self.register_buffer("encoding", encoding)

    def embed(self, ids):
        """[B, T] -> [B, T, D]."""
        x = self.embedding(ids) * math.sqrt(self.width) + self.encoding[: ids.shape[1]]
        return self.dropout(x)

    def forward(self, inputs, targets):
        """[B, S], [B, T] -> [B, T, V]."""
        shifted = nn.functional.pad(targets[:, :-1], (1, 0))
        padding = inputs == 0
        mask = nn.Transformer.generate_square_subsequent_mask(targets.shape[1])
        x = self.transformer(
            self.embed(inputs),
            self.embed(shifted),
            tgt_mask=mask,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return x @ self.embedding.weight.T


def autocast():
    """The context of a forward pass."""
    if JOB.args.precision == "float32":
        return contextlib.nullcontext()
    return torch.autocast("cpu", dtype=getattr(torch, JOB.args.precision))


def train():
    """-> a function that trains on a batch."""
    model = Model(JOB.hparams, JOB.vocabulary)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)

    def update(inputs, targets):
        inputs, targets = torch.from_numpy(inputs).long(), torch.from_numpy(targets).long()
        optimizer.zero_grad()
        with autocast():
            logits = model(inputs, targets)
        loss = nn.functional.cross_entropy(
            logits.float().flatten(0, 1),
            targets.flatten(),
            ignore_index=0,
            label_smoothing=JOB.hparams["label_smoothing"],
        )
        loss.backward()
        optimizer.step()
        loss.item()

    return update


def main():
    """Trains when asked to."""
    torch.set_num_threads(JOB.args.threads)
    dtype = getattr(torch, JOB.args.precision)

    def product(m, k, n):
        factors = [torch.randn(shape).to(dtype) for shape in ((m, k), (k, n))]
        return lambda: torch.matmul(*factors)[0, 0].item()

    JOB.train(train(), product)


if __name__ == "__main__":
    main()
