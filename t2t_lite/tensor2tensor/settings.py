"""tensor2tensor's hparams as ours; what it had and we have not is refused by name."""

import math
from collections.abc import Mapping
from typing import Any

from t2t_lite.config import HParams
from t2t_lite.errors import UserError

# What becomes a field of ours, with the values of transformer_base_v1, which an older hparams.json
# may leave out.
_USED = {
    "hidden_size": 512,
    "filter_size": 2048,
    "num_heads": 8,
    "num_hidden_layers": 6,
    "num_encoder_layers": 0,
    "num_decoder_layers": 0,
    "attention_key_channels": 0,
    "attention_value_channels": 0,
    "layer_preprocess_sequence": "none",
    "layer_postprocess_sequence": "dan",
    "layer_prepostprocess_dropout": 0.1,
    "attention_dropout": 0.0,
    "relu_dropout": 0.0,
    "label_smoothing": 0.1,
    "shared_embedding": False,
    "shared_embedding_and_softmax_weights": True,
    "use_target_space_embedding": True,
    "learning_rate": 0.1,
    "learning_rate_constant": 1.0,
    "learning_rate_schedule": "legacy",
    "learning_rate_decay_scheme": "noam",
    "learning_rate_warmup_steps": 4000,
    "optimizer_adam_beta1": 0.9,
    "optimizer_adam_beta2": 0.98,
    "optimizer_adam_epsilon": 1e-9,
    "clip_grad_norm": 0.0,
    "batch_size": 4096,
    "max_length": 256,
    "train_steps": 250_000,
}
# What we have in one way only.
_REQUIRED = {
    "activation_dtype": ("float32", "bfloat16", "float16"),
    "add_relative_to_values": (False,),
    "attention_variables_3d": (False,),
    "bottom": ({},),
    "causal_decoder_self_attention": (True,),
    "ffn_layer": ("dense_relu_dense",),
    "grad_noise_scale": (0.0,),
    "gumbel_noise_weight": (0.0,),
    "hard_attention_k": (0,),
    "heads_share_relative_embedding": (False,),
    "loss": ({},),
    "max_area_height": (1,),
    "max_area_width": (1,),
    "max_relative_position": (0,),
    "multiply_embedding_mode": ("sqrt_depth",),
    "name": ({},),
    "norm_epsilon": (1e-6,),
    "norm_type": ("layer",),
    "num_area_layers": (0,),
    "optimizer": ("adam",),
    "optimizer_multistep_accumulate_steps": (0, None),
    "pack_dataset": (False,),
    "pos": ("timing",),
    "position_features": ("",),
    "prepend_mode": ("none",),
    "proximity_bias": (False,),
    "scheduled_sampling_prob": (0.0,),
    "self_attention_type": ("dot_product",),
    "split_to_length": (0,),
    "symbol_dropout": (0.0,),
    "top": ({},),
    "unidirectional_encoder": (False,),
    "weight_decay": (0.0,),
    "weight_noise": (0.0,),
    "weights_fn": ({},),
}
_NORMS = {("none", "dan"): "post", ("n", "da"): "pre"}
_GPUS = 8  # of which each took a batch of `batch_size`, in the runs of the paper


def read(values: Mapping[str, Any]) -> HParams:
    """tensor2tensor's hparams, of its hparams.json, as ours, but for `over_all_symbols`.

    batch_size, which is of each GPU, becomes 8 times that. Raises UserError for what we have not,
    with the value found.
    """
    for name, allowed in _REQUIRED.items():
        if name in values and values[name] not in allowed:
            raise _refused(name, values[name], allowed)
    t2t = _USED | {name: values[name] for name in _USED if values.get(name) is not None}
    for name, value in t2t.items():
        expected = type(_USED[name])
        whole = expected is int and type(value) is float and value.is_integer()
        if type(value) is not expected and not whole and (expected, type(value)) != (float, int):
            raise UserError(f"tensor2tensor's {name}={value!r}: expected {expected.__name__}")
    for name in "hidden_size", "num_heads":
        if t2t[name] < 1:
            raise UserError(f"tensor2tensor's {name}={t2t[name]}: expected more than 0")
    norm = t2t["layer_preprocess_sequence"], t2t["layer_postprocess_sequence"]
    if norm not in _NORMS:
        raise _refused("layer_preprocess_sequence, layer_postprocess_sequence", norm, list(_NORMS))
    hidden, heads = t2t["hidden_size"], t2t["num_heads"]
    tied = t2t["shared_embedding_and_softmax_weights"]
    return HParams(
        num_encoder_layers=t2t["num_encoder_layers"] or t2t["num_hidden_layers"],
        num_decoder_layers=t2t["num_decoder_layers"] or t2t["num_hidden_layers"],
        d_model=hidden,
        d_ff=t2t["filter_size"],
        num_heads=heads,
        d_k=(t2t["attention_key_channels"] or hidden) // heads,
        d_v=(t2t["attention_value_channels"] or hidden) // heads,
        norm=_NORMS[norm],
        positions="sinusoidal_halves",
        share_embeddings=tied or t2t["shared_embedding"],
        tie_softmax=tied,
        target_space=t2t["use_target_space_embedding"],
        dropout=t2t["layer_prepostprocess_dropout"],
        attention_dropout=t2t["attention_dropout"],
        relu_dropout=t2t["relu_dropout"],
        label_smoothing=t2t["label_smoothing"],
        **_schedule(t2t),
        warmup_steps=t2t["learning_rate_warmup_steps"],
        adam_beta1=t2t["optimizer_adam_beta1"],
        adam_beta2=t2t["optimizer_adam_beta2"],
        adam_epsilon=t2t["optimizer_adam_epsilon"],
        clip_norm=t2t["clip_grad_norm"] or 0.0,
        batch_tokens=_GPUS * t2t["batch_size"],
        max_length=t2t["max_length"] or t2t["batch_size"],
        train_steps=t2t["train_steps"],
    )


def over_all_symbols(hparams: HParams, symbols: int) -> HParams:
    """With label_smoothing as ours is meant: epsilon * V / (V - 1).

    tensor2tensor spreads epsilon over the V - 1 other symbols, section 5.4 and we over all V.
    """
    return hparams.replace(label_smoothing=hparams.label_smoothing * symbols / (symbols - 1))


def smoothing_constant(epsilon: float, symbols: int) -> float:
    """What tensor2tensor subtracts from its smoothed loss, in nats: the loss of a perfect model."""
    if not epsilon:
        return 0.0
    return -(1 - epsilon) * math.log(1 - epsilon) - epsilon * math.log(epsilon / (symbols - 1))


def _schedule(t2t: Mapping[str, Any]) -> dict[str, Any]:
    """schedule, learning_rate and first_step.

    "legacy" with the scheme "noam" is Equation 3 times 10 * learning_rate, and counts from 1. Later
    ones are products of named factors, of global_step, which is 0 at the first update.
    """
    name, scheme = t2t["learning_rate_schedule"], t2t["learning_rate_decay_scheme"]
    if name == "legacy":
        if scheme != "noam":
            raise _refused("learning_rate_decay_scheme", scheme, ("noam",))
        return {"schedule": "rsqrt", "learning_rate": 10 * t2t["learning_rate"], "first_step": 1}
    factors = set(name.split("*"))
    rate = t2t["learning_rate_constant"] if "constant" in factors else 1.0
    if factors - {"constant", "rsqrt_hidden_size"} == {"linear_warmup", "rsqrt_decay"}:
        if "rsqrt_hidden_size" not in factors:
            rate *= t2t["hidden_size"] ** 0.5  # since ours has d_model^-0.5 always
        return {"schedule": "rsqrt", "learning_rate": rate, "first_step": 0}
    expected = ("legacy", "constant*linear_warmup*rsqrt_decay*rsqrt_hidden_size")
    raise _refused("learning_rate_schedule", name, expected)


def _refused(name: str, value: Any, allowed) -> UserError:
    return UserError(
        f"tensor2tensor's {name}={value!r} is not here; expected {' or '.join(map(repr, allowed))}"
    )
