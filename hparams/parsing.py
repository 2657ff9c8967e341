"""Transformers for constituency parsing (section 6.3)."""

from t2t_lite.hparams.transformer import base, small, tiny

from t2t_lite.config import HParams
from t2t_lite.registry import register_hparams


@register_hparams
def parsing() -> HParams:
    """The paper's parser: 4+4 layers, d_model 1024 (section 6.3)."""
    return base().replace(
        num_encoder_layers=4,
        num_decoder_layers=4,
        d_model=1024,
        d_ff=2048,
        num_heads=8,
        d_k=128,
        d_v=128,
        dropout=0.2,  # tuned on section 22, no value named; as tensor2tensor's set has it
        attention_dropout=0.2,  # likewise
        # Likewise; the learning rate's factor, tuned too, is base's 1 and tensor2tensor's 2.
        warmup_steps=16_000,
        max_length=512,  # trees have some 2.5 symbols a word
    )


@register_hparams
def parsing_small() -> HParams:
    """For CPUs and some 10,000 trees: 3+3 layers, d_model 256, small batches, next word given."""
    return small().replace(
        next_word="given",
        dropout=0.2,
        learning_rate=1.2e-3,
        batch_tokens=2048,
        max_length=512,
        train_steps=10_000,
        eval_steps=2500,
        checkpoint_steps=200,
    )


@register_hparams
def parsing_tiny() -> HParams:
    """For toy_parsing, two minutes on a CPU: 2+2 layers, d_model 128, 1,600 updates."""
    return tiny().replace(
        next_word="given",
        learning_rate=2e-3,
        warmup_steps=300,
        batch_tokens=1024,
        max_length=128,
        train_steps=1600,
        eval_steps=800,
    )
