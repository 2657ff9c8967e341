"""Sampling from the model, over the same step function as beam search.

Shapes: W independent samples of each row, K symbols to choose from; others as in `beam_search`.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from t2t_lite.data.tokenizer import EOS, PAD, UNK
from t2t_lite.decoding.hypotheses import (
    Allow,
    Hypotheses,
    Step,
    length_penalty,
    log_sum_exp,
    prefix_symbol,
    size,
)


def sample(
    step: Step,
    memory: Any,
    cache: Any,
    *,
    uniforms: tf.Tensor,
    temperature: float,
    top_k: int | None,
    alpha: float,
    limits: tf.Tensor,
    prefix: tf.Tensor | None = None,
    allow: Allow | None = None,
    grammar: Any = (),
    forbidden: Sequence[int] = (PAD, UNK),
) -> Hypotheses:
    """W outputs of each row, each symbol drawn from softmax(logits / temperature), best first.

    Args, beside those that `beam_search` has too:
        uniforms: float32 [B, W, L] in [0, 1), the only source of chance: the same numbers draw the
            same outputs.
        temperature: above 0. Log probabilities and scores are the model's own, at temperature 1.
        top_k: draw from the k most probable symbols only; None: from all.
    """
    batch, samples, max_length = (size(uniforms, axis) for axis in range(3))
    limits = tf.minimum(limits, max_length)[:, None]  # [B, 1]

    def extend(position, ids, log_probs, done, cache, grammar):
        last = ids[:, :, tf.maximum(position - 1, 0)]  # [B, W]
        logits, cache = step(last, position, memory, cache)  # [B, W, V]
        choices = logits
        if allow:
            mask, grammar = allow(last, position, grammar)
            choices = tf.where(mask, choices, float("-inf"))
        for symbol in forbidden:
            choices = tf.where(tf.range(logits.shape[2]) == symbol, float("-inf"), choices)
        drawn = _draw(choices, uniforms[:, :, position], temperature, top_k)  # [B, W]
        if prefix is not None:
            symbol, forced = prefix_symbol(prefix, position)
            drawn = tf.where(forced[:, None], symbol[:, None], drawn)

        here = (tf.range(max_length) == position) & ~done[:, :, None]
        ids = tf.where(here, drawn[:, :, None], ids)
        log_probs = tf.where(done, log_probs, log_probs + _log_probs(logits, drawn))
        done = done | (drawn == EOS) | (position + 1 >= limits)
        return position + 1, ids, log_probs, done, cache, grammar

    no_ids = tf.zeros([batch, samples, max_length], tf.int32)
    done = tf.broadcast_to(limits <= 0, [batch, samples])
    _, ids, log_probs, *_ = tf.while_loop(
        lambda position, ids, log_probs, done, cache, grammar: ~tf.reduce_all(done),
        extend,
        (tf.constant(0), no_ids, tf.zeros([batch, samples]), done, cache, grammar),
        maximum_iterations=max_length,
    )
    return _best_first(ids, log_probs, alpha)


def _draw(logits: tf.Tensor, uniform: tf.Tensor, temperature: float, top_k: int | None):
    """A symbol for each uniform number: [B, W, V], [B, W] -> int32 [B, W]."""
    if top_k is None:
        return _invert(logits / temperature, uniform)
    best, symbols = tf.math.top_k(logits, min(top_k, logits.shape[2]))  # [B, W, k]
    return tf.gather(symbols, _invert(best / temperature, uniform), axis=2, batch_dims=2)


def _invert(logits: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
    """Inverts the cumulative distribution: [B, W, K], [B, W] -> int32 [B, W]."""
    cumulative = tf.cumsum(tf.exp(logits - tf.reduce_max(logits, axis=2, keepdims=True)), axis=2)
    # In (0, total]: the first sum to reach it exists, and its symbol's probability is not 0.
    threshold = (1.0 - uniform[:, :, None]) * cumulative[:, :, -1:]
    return tf.reduce_sum(tf.cast(cumulative < threshold, tf.int32), axis=2)


def _log_probs(logits: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Those of some symbols: [B, W, V], [B, W] -> [B, W]."""
    normaliser = log_sum_exp(logits, tf.reduce_max(logits, axis=2, keepdims=True))[:, :, 0]
    return tf.gather(logits, ids, axis=2, batch_dims=2) - normaliser


def _best_first(ids: tf.Tensor, log_probs: tf.Tensor, alpha: float) -> Hypotheses:
    """[B, W, L], [B, W], sorted by score."""
    lengths = tf.reduce_sum(tf.cast(ids != PAD, tf.int32), axis=2)
    scores, order = tf.math.top_k(log_probs / length_penalty(lengths, alpha), size(ids, 1))
    return Hypotheses(
        tf.gather(ids, order, axis=1, batch_dims=1),
        tf.gather(log_probs, order, axis=1, batch_dims=1),
        scores,
    )
