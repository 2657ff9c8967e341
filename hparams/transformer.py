"""The paper's Transformers for translation, and smaller ones for CPUs."""

from t2t_lite.config import HParams
from t2t_lite.registry import register_hparams


@register_hparams
def base() -> HParams:
    """The paper's base model: 6+6 layers, d_model 512, 100,000 updates (Table 3)."""
    return HParams()


@register_hparams
def big() -> HParams:
    """The paper's big model: 6+6 layers, d_model 1024, 300,000 updates, dropout 0.3 (Table 3)."""
    return base().replace(
        d_model=1024,
        d_ff=4096,
        num_heads=16,
        dropout=0.3,
        train_steps=300_000,
        average_checkpoints=20,  # section 6.1
    )


@register_hparams
def big_enfr() -> HParams:
    """The paper's big model for English-French: dropout 0.1 (section 6.1)."""
    return big().replace(dropout=0.1)


@register_hparams
def small() -> HParams:
    """For CPUs and corpora of some 10,000 pairs: 3+3 layers, d_model 256, 2,080 updates."""
    return base().replace(
        num_encoder_layers=3,
        num_decoder_layers=3,
        d_model=256,
        d_ff=1024,
        num_heads=4,
        dropout=0.15,
        schedule="cosine",
        learning_rate=1.5e-3,
        warmup_steps=400,
        batch_tokens=4096,
        train_steps=2080,  # on Multi30k 7.7 million target sub-words, 18 epochs
        eval_steps=520,
        checkpoint_steps=80,
        average_checkpoints=5,
    )


@register_hparams
def tiny() -> HParams:
    """For demonstrations, a minute on a CPU: 2+2 layers, d_model 128, 400 updates."""
    return small().replace(
        num_encoder_layers=2,
        num_decoder_layers=2,
        d_model=128,
        d_ff=512,
        d_k=32,
        d_v=32,
        dropout=0.05,
        learning_rate=3e-3,
        warmup_steps=100,
        batch_tokens=2048,
        max_length=64,
        train_steps=400,
        eval_steps=200,
        checkpoint_steps=40,
    )
