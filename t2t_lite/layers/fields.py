"""The fields of HParams that shape a model: what its layers keep in their configuration."""

from t2t_lite.config import HParams

_FIELDS = (
    "num_encoder_layers", "num_decoder_layers", "d_model", "d_ff", "num_heads", "d_k", "d_v",
    "encoder_layer", "neighbourhood", "kernel_size",
    "norm", "positions", "max_positions", "next_word",
    "share_embeddings", "tie_softmax", "target_space",
    "dropout", "attention_dropout", "relu_dropout",
)  # fmt: skip


def model_fields(hparams: HParams) -> dict:
    """{field: value} of what says how the model computes, and nothing of its training."""
    return {name: getattr(hparams, name) for name in _FIELDS}
