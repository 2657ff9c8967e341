"""Beam search (section 6.1) over an abstract step function: pure tensor operations with static shapes, so it runs in a
graph, under XLA and on any device.

A row of the batch is one sentence; it has W *alive* hypotheses that still grow and W *finished* ones that ended in EOS.
Each step extends every alive hypothesis by every symbol and keeps the best 2W extensions: those that end in EOS compete
for a place among the finished, the best W others are the next alive. At most W of the 2W can end in EOS, so W remain.

Hypotheses are ranked by `log_prob / length_penalty`. A row is done when no alive hypothesis can still enter its n best,
or at its own limit. A hypothesis that reaches the limit is cut there, without EOS; such ones are returned, best first,
only for places that no finished hypothesis takes. Rows share nothing but the loop: none depends on the others.

Shapes: B batch, W beam width, C candidates, L maximal output length, P prefix length, V vocabulary, N n_best.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from t2t_lite.data.tokenizer import EOS, PAD, UNK

# (ids int32 [B, W], position int32 [], memory, cache) -> (logits float32 [B, W, V], cache)
# `ids`: the symbols at `position - 1`, PAD at position 0. Tensors of `memory` begin with [B], of `cache` with [B, W].
Step = Callable[[tf.Tensor, tf.Tensor, Any, Any], tuple[tf.Tensor, Any]]

_NONE = float("-inf")  # log probability and score of a place that no hypothesis has taken


class Hypotheses(NamedTuple):
    """What a search returns: N hypotheses of each row, best first."""

    ids: tf.Tensor  # int32 [B, N, L], EOS kept, PAD after it
    log_probs: tf.Tensor  # float32 [B, N], -inf: fewer than N hypotheses exist
    scores: tf.Tensor  # float32 [B, N], log_probs / length_penalty


class _State(NamedTuple):
    position: tf.Tensor  # int32 [], symbols that the alive hypotheses have
    alive_ids: tf.Tensor  # int32 [B, W, L]
    alive_log_probs: tf.Tensor  # float32 [B, W], best first
    finished_ids: tf.Tensor  # int32 [B, W, L]
    finished_log_probs: tf.Tensor  # float32 [B, W]
    finished_scores: tf.Tensor  # float32 [B, W], best first
    done: tf.Tensor  # bool [B]
    cache: Any  # nest of [B, W, ...]


def length_penalty(length: tf.Tensor, alpha: float) -> tf.Tensor:
    """((5 + length) / 6)^alpha of Wu et al. (2016), the reference [38] of section 6.1; length counts EOS."""
    return ((5.0 + tf.cast(length, tf.float32)) / 6.0) ** alpha


def beam_search(
    step: Step,
    memory: Any,
    cache: Any,
    *,
    beam_size: int,
    alpha: float,
    limits: tf.Tensor,
    max_length: int,
    prefix: tf.Tensor | None = None,
    forbidden: Sequence[int] = (PAD, UNK),
    n_best: int = 1,
    candidates: int | None = None,
) -> Hypotheses:
    """The n best outputs of each row.

    Args:
        step: gives the logits of the next symbol. It may mask them: log probabilities are taken of what it returns.
        memory: nest of constants, [B, ...]; handed to `step`, never tiled over beams and never reordered.
        cache: nest of what `step` carries along, [B, W, ...]; reordered over W after each step.
        beam_size: W. With 1 the search is greedy.
        alpha: exponent of the length penalty, at least 0.
        limits: int32 [B], how many symbols a row's output may have, EOS included.
        max_length: L, bounds all limits.
        prefix: int32 [B, P], what each row's output must begin with, PAD after its end; all PAD: anything. Its symbols
            count in the log probability as the model sees them.
        forbidden: ids never generated. They keep their share of probability, so that scores are the model's own.
        n_best: N, at most W. The first of n are the same for every n.
        candidates: C, extensions kept at each step. Default 2W; 1 for W = 1, where a second one would keep growing
            beside an EOS that was the most probable symbol, and "greedy" would not be argmax.
    """
    batch, candidates = limits.shape[0], candidates or (2 * beam_size if beam_size > 1 else 1)
    limits = tf.minimum(limits, max_length)

    def extend(state: _State) -> _State:
        last = state.alive_ids[:, :, tf.maximum(state.position - 1, 0)]  # [B, W]; all PAD at position 0
        logits, cache = step(last, state.position, memory, state.cache)
        log_probs, symbols = _best_symbols(logits, candidates, forbidden, prefix, state.position)  # [B, W, K] each

        # The best C of the W * K extensions.
        width = log_probs.shape[2]
        log_probs = tf.reshape(state.alive_log_probs[:, :, None] + log_probs, [batch, beam_size * width])
        log_probs, index = tf.math.top_k(log_probs, candidates)  # [B, C]
        symbols = _take(tf.reshape(symbols, [batch, beam_size * width]), index)
        parents = index // width
        at_position = tf.range(max_length) == state.position
        ids = tf.where(at_position, symbols[:, :, None], _take(state.alive_ids, parents))  # [B, C, L]
        length = state.position + 1
        ends = symbols == EOS

        # Finished: the old ones and those that end now. Old ones come first, so that they win ties.
        scores = log_probs / length_penalty(length, alpha)
        scores = tf.where(ends & ~state.done[:, None], scores, _NONE)
        finished_scores, index = tf.math.top_k(tf.concat([state.finished_scores, scores], 1), beam_size)
        finished_ids = _take(tf.concat([state.finished_ids, ids], 1), index)
        finished_log_probs = _take(tf.concat([state.finished_log_probs, log_probs], 1), index)

        # Alive: the others. Rows that are done stay as they were.
        alive_log_probs, index = tf.math.top_k(tf.where(ends, _NONE, log_probs), beam_size)
        alive_log_probs = tf.where(state.done[:, None], state.alive_log_probs, alive_log_probs)
        alive_ids = tf.where(state.done[:, None, None], state.alive_ids, _take(ids, index))
        if beam_size > 1:
            cache = tf.nest.map_structure(lambda tensor: _take(tensor, _take(parents, index)), cache)

        # Log probabilities only fall, so this is the best score that an alive hypothesis can still reach.
        bound = alive_log_probs[:, 0] / length_penalty(limits, alpha)
        done = state.done | (finished_scores[:, n_best - 1] >= bound) | (length >= limits)
        return _State(length, alive_ids, alive_log_probs, finished_ids, finished_log_probs, finished_scores, done, cache)

    no_ids = tf.zeros([batch, beam_size, max_length], tf.int32)
    none = tf.fill([batch, beam_size], _NONE)
    start = _State(
        position=tf.constant(0),
        alive_ids=no_ids,
        # One empty hypothesis; W equal ones would stay equal.
        alive_log_probs=tf.concat([tf.zeros([batch, 1]), none[:, 1:]], 1),
        finished_ids=no_ids,
        finished_log_probs=none,
        finished_scores=none,
        done=limits <= 0,
        cache=cache,
    )
    (end,) = tf.while_loop(
        lambda state: ~tf.reduce_all(state.done),
        lambda state: (extend(state),),
        (start,),
        maximum_iterations=max_length,
    )

    # Place n: the n-th finished one, or, where there are only F < n, the (n - F)-th of those cut at the limit.
    count = tf.reduce_sum(tf.cast(end.finished_scores > _NONE, tf.int32), axis=1, keepdims=True)  # F: [B, 1]
    place = tf.range(n_best)[None, :]
    index = tf.where(place < count, place, beam_size + place - count)  # [B, N] into finished + alive
    cut_scores = end.alive_log_probs / length_penalty(limits, alpha)[:, None]
    return Hypotheses(
        _take(tf.concat([end.finished_ids, end.alive_ids], 1), index),
        _take(tf.concat([end.finished_log_probs, end.alive_log_probs], 1), index),
        _take(tf.concat([end.finished_scores, cut_scores], 1), index),
    )


def _best_symbols(logits, count, forbidden, prefix, position) -> tuple[tf.Tensor, tf.Tensor]:
    """Log probabilities and ids [B, W, K] of the `count` best symbols after each hypothesis, best first.

    K is larger than `count` by the number of forbidden ids, which stay in with -inf: masking K symbols is cheaper than
    masking V. For the same reason only K of the V log probabilities are computed.
    """
    values, symbols = tf.math.top_k(logits, min(count + len(forbidden), logits.shape[2]))
    normaliser = log_sum_exp(logits, values[:, :, :1])
    for symbol in forbidden:
        values = tf.where(symbols == symbol, _NONE, values)
    if prefix is not None:
        # Within a row's prefix its symbol is the only choice.
        symbol, forced = prefix_symbol(prefix, position)  # [B], [B]
        value = tf.gather(logits, symbol[:, None], axis=2, batch_dims=1)  # [B, W, 1]
        only = tf.concat([value, tf.fill([*values.shape[:2], values.shape[2] - 1], _NONE)], 2)
        values = tf.where(forced[:, None, None], only, values)
        symbols = tf.where(forced[:, None, None], symbol[:, None, None], symbols)
    return values - normaliser, symbols


def log_sum_exp(logits: tf.Tensor, maximum: tf.Tensor) -> tf.Tensor:
    """Over V, the maximum being known: [B, W, V], [B, W, 1] -> [B, W, 1]."""
    return maximum + tf.math.log(tf.reduce_sum(tf.exp(logits - maximum), axis=2, keepdims=True))


def prefix_symbol(prefix: tf.Tensor, position: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The symbol of each row's prefix at `position`, and whether there is one: int32 [B], bool [B]."""
    symbol = tf.where(position < prefix.shape[1], prefix[:, tf.minimum(position, prefix.shape[1] - 1)], PAD)
    return symbol, symbol != PAD


def _take(tensor: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """Row by row: [B, X, ...], [B, Y] -> [B, Y, ...]."""
    return tf.gather(tensor, index, axis=1, batch_dims=1)
