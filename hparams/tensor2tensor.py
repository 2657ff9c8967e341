"""tensor2tensor's sets, under its names and with its values.

Its batch_size is of each GPU and ours of all, so that batch_tokens is 8 times as large, as in the
paper's runs. Its label_smoothing is over one symbol fewer; `t2t-import` converts it.
"""

from t2t_lite.config import HParams
from t2t_lite.registry import register_hparams


@register_hparams
def transformer_base_v1() -> HParams:
    """tensor2tensor's first base model: post-norm, as in the paper."""
    return HParams(
        positions="sinusoidal_halves",
        target_space=True,
        batch_tokens=8 * 4096,
        train_steps=250_000,
    )


@register_hparams
def transformer_base_v2() -> HParams:
    """tensor2tensor's base model with pre-norm, more dropout, warmup 8,000 and twice the rate."""
    return transformer_base_v1().replace(
        norm="pre",
        attention_dropout=0.1,
        relu_dropout=0.1,
        learning_rate=2.0,
        warmup_steps=8000,
    )


@register_hparams
def transformer_base_v3() -> HParams:
    """transformer_base_v2 with beta2 0.997 and a schedule that counts from 0."""
    return transformer_base_v2().replace(adam_beta2=0.997, first_step=0)


@register_hparams
def transformer_base() -> HParams:
    """tensor2tensor's base model of last, transformer_base_v3."""
    return transformer_base_v3()


@register_hparams
def transformer_big() -> HParams:
    """tensor2tensor's big model: d_model 1024, dropout 0.3."""
    return transformer_base().replace(
        d_model=1024, d_ff=4096, num_heads=16, dropout=0.3, batch_tokens=8 * 2048
    )


@register_hparams
def transformer_big_enfr() -> HParams:
    """tensor2tensor's for English-French: d_ff 8192, dropout 0.1, three matrices of symbols."""
    return transformer_big().replace(
        d_ff=8192, dropout=0.1, batch_tokens=8 * 4096, share_embeddings=False, tie_softmax=False
    )


@register_hparams
def transformer_base_single_gpu() -> HParams:
    """tensor2tensor's base model for one GPU, whose rate does not follow from d_model."""
    return transformer_base().replace(
        batch_tokens=8 * 1024, warmup_steps=16_000, learning_rate=0.1 * 512**0.5
    )


@register_hparams
def transformer_big_single_gpu() -> HParams:
    """tensor2tensor's big model for one GPU: warmup 16,000, dropout 0.1."""
    return transformer_big().replace(dropout=0.1, warmup_steps=16_000)


@register_hparams
def transformer_small() -> HParams:
    """tensor2tensor's small model: 2+2 layers, d_model 256."""
    return transformer_base().replace(
        num_encoder_layers=2, num_decoder_layers=2, d_model=256, d_ff=1024, num_heads=4
    )


@register_hparams
def transformer_tiny() -> HParams:
    """tensor2tensor's tiny model: 2+2 layers, d_model 128."""
    return transformer_base().replace(
        num_encoder_layers=2,
        num_decoder_layers=2,
        d_model=128,
        d_ff=512,
        num_heads=4,
        d_k=32,
        d_v=32,
    )


@register_hparams
def transformer_clean() -> HParams:
    """transformer_base_v2 without dropout and label smoothing."""
    return transformer_base_v2().replace(
        label_smoothing=0.0, dropout=0.0, attention_dropout=0.0, relu_dropout=0.0, max_length=4096
    )


@register_hparams
def transformer_parsing_base() -> HParams:
    """tensor2tensor's parser: d_model 1024, dropout 0.2, three matrices of symbols."""
    return transformer_base().replace(
        d_model=1024,
        d_k=128,
        d_v=128,
        dropout=0.2,
        attention_dropout=0.2,
        max_length=512,
        warmup_steps=16_000,
        share_embeddings=False,
        tie_softmax=False,
    )


@register_hparams
def transformer_parsing_big() -> HParams:
    """tensor2tensor's big parser: dropout 0.1, warmup 4,000."""
    return transformer_big().replace(dropout=0.1, max_length=512, warmup_steps=4000)
