"""Beam search (section 6.1) over an abstract step function: pure tensor operations, so it runs in a
graph, under XLA and on any device.

A row of the batch is one sentence; it has W *alive* hypotheses that still grow and W *finished*
ones that ended in EOS. Each step extends every alive hypothesis by every symbol and keeps the best
2W extensions: those that end in EOS compete for a place among the finished, the best W others are
the next alive. At most W of the 2W can end in EOS, so W remain.

Hypotheses are ranked by `log_prob / length_penalty`. A row is done when no alive hypothesis can
still enter its n best, or at its own limit. A hypothesis that reaches the limit is cut there,
without EOS; such ones are returned, best first, only for places that no finished hypothesis takes.
Rows share nothing but the loop: none depends on the others.

Under XLA all shapes are static, and the loop runs until the last row is done. Otherwise it runs in
stages: each begins by leaving out the rows that are done, and with caches just long enough for its
steps, since each step reads and writes them whole.

Shapes: B batch, W beam width, C candidates, K symbols per hypothesis, L maximal output length,
P prefix length, V vocabulary, N n_best.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

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

_NONE = float("-inf")  # log probability and score of a place that no hypothesis has taken
STAGE = 3  # steps between two occasions to leave out rows that are done


class _Search(NamedTuple):
    """What is the same for all rows and steps; described at `beam_search`."""

    step: Step
    beam_size: int
    alpha: float
    max_length: int | tf.Tensor
    allow: Allow | None
    forbidden: Sequence[int]
    n_best: int
    candidates: int
    reorder: Callable[[Any, tf.Tensor], Any]


class _Rows(NamedTuple):
    """What stays the same while a row is searched for."""

    memory: Any  # nest of [B, ...]
    limits: tf.Tensor  # int32 [B]
    prefix: tf.Tensor  # int32 [B, P]


class _State(NamedTuple):
    """What changes."""

    alive_ids: tf.Tensor  # int32 [B, W, L]
    alive_log_probs: tf.Tensor  # float32 [B, W], best first
    finished_ids: tf.Tensor  # int32 [B, W, L]
    finished_log_probs: tf.Tensor  # float32 [B, W]
    finished_scores: tf.Tensor  # float32 [B, W], best first
    done: tf.Tensor  # bool [B]
    cache: Any  # nest of [B, ...], the step's
    grammar: Any  # nest of [B, W, ...], what says which symbols may come next


class _Extensions(NamedTuple):
    """The best extensions of a row's alive hypotheses by one symbol, best first."""

    ids: tf.Tensor  # int32 [B, C, L]
    log_probs: tf.Tensor  # float32 [B, C]
    ends: tf.Tensor  # bool [B, C], the symbol is EOS
    parents: tf.Tensor  # int32 [B, C], which alive hypothesis it extends


def beam_search(
    step: Step,
    memory: Any,
    cache: Any,
    *,
    beam_size: int,
    alpha: float,
    limits: tf.Tensor,
    max_length: int | tf.Tensor,
    prefix: tf.Tensor | None = None,
    allow: Allow | None = None,
    grammar: Any = (),
    forbidden: Sequence[int] = (PAD, UNK),
    n_best: int = 1,
    candidates: int | None = None,
    reorder: Callable[[Any, tf.Tensor], Any] | None = None,
    grow: Callable[[Any], Any] | None = None,
) -> Hypotheses:
    """The n best outputs of each row.

    Args:
        step: gives the logits of the next symbol.
        memory: nest of constants, [B, ...]; handed to `step`, never tiled over beams and never
            reordered.
        cache: nest of what `step` carries along, [B, ...].
        beam_size: W. With 1 the search is greedy.
        alpha: exponent of the length penalty, at least 0.
        limits: int32 [B], how many symbols a row's output may have, EOS included.
        max_length: L, bounds all limits; may be a tensor where `grow` is given.
        prefix: int32 [B, P], what each row's output must begin with, PAD after its end; all PAD:
            anything. Its symbols count in the log probability as the model sees them.
        allow: says which symbols may come next; None: all.
        grammar: nest of what `allow` carries along, [B, W, ...]; reordered over W after each step.
        forbidden: ids never generated. They, and what is not allowed, keep their share of
            probability, so that scores are the model's own.
        n_best: N, at most W. The first of n are the same for every n.
        candidates: C, extensions kept at each step. Default 2W; 1 for W = 1, where a second one
            would keep growing beside an EOS that was the most probable symbol, and "greedy" would
            not be argmax.
        reorder: (cache, parents int32 [B, W]) -> the cache after each alive hypothesis has become
            the continuation of its parent. None: its tensors are [B, W, ...], gathered over W.
        grow: adds room for STAGE more positions to the cache, which has none at the start. None:
            the cache has room for all, shapes are static, as XLA needs them.
    """
    search = _Search(
        step, beam_size, alpha, max_length, allow, forbidden, n_best,
        candidates=candidates or (2 * beam_size if beam_size > 1 else 1),
        reorder=reorder or _take_from_each,
    )  # fmt: skip
    batch = size(limits, 0)
    prefix = tf.zeros([batch, 1], tf.int32) if prefix is None else prefix
    rows = _Rows(memory, tf.minimum(limits, max_length), prefix)
    state = _initial_state(search, rows, batch, cache, grammar)
    if grow:
        return _search_in_stages(search, rows, state, grow)
    _, state = _run(search, tf.constant(0), rows, state, max_length)
    return _best(search, rows, state)


def _initial_state(search: _Search, rows: _Rows, batch, cache: Any, grammar: Any) -> _State:
    """One empty hypothesis a row; W equal ones would stay equal."""
    no_ids = tf.zeros([batch, search.beam_size, search.max_length], tf.int32)
    none = tf.fill([batch, search.beam_size], _NONE)
    return _State(
        alive_ids=no_ids,
        alive_log_probs=tf.concat([tf.zeros([batch, 1]), none[:, 1:]], 1),
        finished_ids=no_ids,
        finished_log_probs=none,
        finished_scores=none,
        done=rows.limits <= 0,
        cache=cache,
        grammar=grammar,
    )


def _run(search: _Search, position, rows: _Rows, state: _State, steps) -> tuple[tf.Tensor, _State]:
    """At most so many steps, fewer where all rows are done before -> (position, state)."""
    return tf.while_loop(
        lambda position, state: ~tf.reduce_all(state.done),
        lambda position, state: (position + 1, _advance(search, position, rows, state)),
        (position, state),
        maximum_iterations=steps,
    )


def _advance(search: _Search, position: tf.Tensor, rows: _Rows, state: _State) -> _State:
    """One step: extends the alive hypotheses and sorts what comes of it into finished and alive."""
    new, cache, grammar = _extend(search, position, rows, state)
    length = position + 1
    state = _finish(search, length, state, new)

    # Alive: what does not end. Rows that are done stay as they were.
    going_on = tf.where(new.ends, _NONE, new.log_probs)
    alive_log_probs, index = tf.math.top_k(going_on, search.beam_size)
    alive_log_probs = tf.where(state.done[:, None], state.alive_log_probs, alive_log_probs)
    alive_ids = tf.where(state.done[:, None, None], state.alive_ids, _take(new.ids, index))
    if search.beam_size > 1:
        parents = _take(new.parents, index)  # [B, W]
        cache, grammar = search.reorder(cache, parents), _take_from_each(grammar, parents)

    # Log probabilities only fall, so this is the best score an alive hypothesis can still reach.
    bound = alive_log_probs[:, 0] / length_penalty(rows.limits, search.alpha)  # [B]
    beaten = state.finished_scores[:, search.n_best - 1] >= bound
    return state._replace(
        alive_ids=alive_ids,
        alive_log_probs=alive_log_probs,
        done=state.done | beaten | (length >= rows.limits),
        cache=cache,
        grammar=grammar,
    )


def _extend(
    search: _Search, position: tf.Tensor, rows: _Rows, state: _State
) -> tuple[_Extensions, Any, Any]:
    """The best C of all extensions, and cache and grammar, in the order of the alive hypotheses."""
    last = state.alive_ids[:, :, tf.maximum(position - 1, 0)]  # [B, W]; all PAD at position 0
    logits, cache = search.step(last, position, rows.memory, state.cache)  # [B, W, V]
    allowed, grammar = None, state.grammar
    if search.allow:
        allowed, grammar = search.allow(last, position, grammar)  # [B, W, V]
    log_probs, symbols = _best_symbols(search, logits, allowed, rows.prefix, position)  # [B, W, K]

    width = log_probs.shape[2]
    log_probs = state.alive_log_probs[:, :, None] + log_probs
    log_probs = tf.reshape(log_probs, [-1, search.beam_size * width])  # [B, W * K]
    log_probs, index = tf.math.top_k(log_probs, search.candidates)  # [B, C]
    symbols = _take(tf.reshape(symbols, [-1, search.beam_size * width]), index)  # [B, C]
    parents = index // width
    at_position = tf.range(search.max_length) == position  # [L]
    ids = tf.where(at_position, symbols[:, :, None], _take(state.alive_ids, parents))  # [B, C, L]
    return _Extensions(ids, log_probs, symbols == EOS, parents), cache, grammar


def _finish(search: _Search, length: tf.Tensor, state: _State, new: _Extensions) -> _State:
    """The best W of the finished ones and of those that end now; old ones first: they win ties."""
    scores = new.log_probs / length_penalty(length, search.alpha)  # [B, C]
    scores = tf.where(new.ends & ~state.done[:, None], scores, _NONE)
    scores, index = tf.math.top_k(tf.concat([state.finished_scores, scores], 1), search.beam_size)
    return state._replace(
        finished_ids=_take(tf.concat([state.finished_ids, new.ids], 1), index),
        finished_log_probs=_take(tf.concat([state.finished_log_probs, new.log_probs], 1), index),
        finished_scores=scores,
    )


def _best(search: _Search, rows: _Rows, state: _State) -> Hypotheses:
    """Place n: the n-th finished one, or of F < n finished the (n - F)-th cut at the limit."""
    finished = tf.cast(state.finished_scores > _NONE, tf.int32)
    count = tf.reduce_sum(finished, axis=1, keepdims=True)  # F: [B, 1]
    place = tf.range(search.n_best)[None, :]
    index = tf.where(place < count, place, search.beam_size + place - count)  # [B, N]
    cut_scores = state.alive_log_probs / length_penalty(rows.limits, search.alpha)[:, None]
    return Hypotheses(
        _take(tf.concat([state.finished_ids, state.alive_ids], 1), index),
        _take(tf.concat([state.finished_log_probs, state.alive_log_probs], 1), index),
        _take(tf.concat([state.finished_scores, cut_scores], 1), index),
    )


def _search_in_stages(search: _Search, rows: _Rows, state: _State, grow: Callable) -> Hypotheses:
    """Stages of STAGE steps, each of the rows that are not done, until all are."""

    def stage(position, numbers, rows, state, found):
        going = tf.where(~state.done)[:, 0]
        numbers, rows, state = tf.nest.map_structure(
            lambda tensor: tf.gather(tensor, going), (numbers, rows, state)
        )
        state = state._replace(cache=grow(state.cache))
        position, state = _run(search, position, rows, state, STAGE)
        found = [
            tf.tensor_scatter_nd_update(all_rows, numbers[:, None], of_these)
            for all_rows, of_these in zip(found, _best(search, rows, state), strict=True)
        ]
        return position, numbers, rows, state, Hypotheses(*found)

    grown = state._replace(cache=grow(grow(state.cache)))
    numbers = tf.range(size(rows.limits, 0))  # which rows are left
    variables = (tf.constant(0), numbers, rows, state, _best(search, rows, state))
    *_, found = tf.while_loop(
        lambda position, numbers, rows, state, found: ~tf.reduce_all(state.done),
        stage,
        variables,
        shape_invariants=_shapes_of_stages(variables, grown),
    )
    return found


def _shapes_of_stages(variables: tuple, grown: _State) -> tuple:
    """What stays of the loop variables' shapes when rows are left out and the cache grows."""

    def common(a: tf.Tensor, b: tf.Tensor) -> tf.TensorShape:
        same = [m if m == n else None for m, n in zip(a.shape, b.shape)]
        return tf.TensorShape([None, *same[1:]] if same else [])

    return tf.nest.map_structure(common, variables, (*variables[:3], grown, variables[4]))


def _best_symbols(
    search: _Search, logits, allowed, prefix, position
) -> tuple[tf.Tensor, tf.Tensor]:
    """Log probabilities and ids [B, W, K] of the C best symbols after each hypothesis, best first.

    K is larger than C by the number of forbidden ids, which stay in with -inf: masking K symbols is
    cheaper than masking V. For the same reason only K of the V log probabilities are computed.
    """
    forbidden, vocabulary = search.forbidden, logits.shape[2]
    choices = logits if allowed is None else tf.where(allowed, logits, _NONE)
    values, symbols = top_k(choices, min(search.candidates + len(forbidden), vocabulary))
    maximum = values[:, :, :1] if allowed is None else tf.reduce_max(logits, axis=2, keepdims=True)
    normaliser = log_sum_exp(logits, maximum)
    for symbol in forbidden:
        values = tf.where(symbols == symbol, _NONE, values)
    # Within a row's prefix its symbol is the only choice.
    symbol, forced = prefix_symbol(prefix, position)  # [B], [B]
    value = tf.gather(logits, symbol[:, None], axis=2, batch_dims=1)  # [B, W, 1]
    only = tf.where(tf.range(values.shape[2]) == 0, value, _NONE)  # [B, W, K]
    values = tf.where(forced[:, None, None], only, values)
    symbols = tf.where(forced[:, None, None], symbol[:, None, None], symbols)
    return values - normaliser, symbols


def top_k(tensor: tf.Tensor, k: int) -> tuple[tf.Tensor, tf.Tensor]:
    """tf.math.top_k of [B, W, V], several times as fast for a large V.

    Only the k groups of symbols with the largest maxima are searched.
    """
    outer, symbols = [size(tensor, 0), size(tensor, 1)], tensor.shape[2]
    if tensor.shape.is_fully_defined():
        # Of matrices, XLA takes the best; of tensors with more axes, it sorts all.
        found = tf.math.top_k(tf.reshape(tensor, [-1, symbols]), k)
        return tuple(tf.reshape(part, [*outer, k]) for part in found)
    group = next((divisor for divisor in (64, 50, 40, 32, 25) if symbols % divisor == 0), symbols)
    if symbols // group <= 2 * k:
        return tf.math.top_k(tensor, k)
    groups = tf.reshape(tensor, [*outer, symbols // group, group])
    _, chosen = tf.math.top_k(tf.reduce_max(groups, axis=3), k)
    chosen = tf.sort(chosen, axis=2)  # of equal values the first symbol wins, as in tf.math.top_k
    few = tf.reshape(tf.gather(groups, chosen, axis=2, batch_dims=2), [*outer, k * group])
    values, index = tf.math.top_k(few, k)
    return values, tf.gather(chosen, index // group, axis=2, batch_dims=2) * group + index % group


def _take_from_each(nest: Any, parents: tf.Tensor) -> Any:
    return tf.nest.map_structure(lambda tensor: _take(tensor, parents), nest)


def _take(tensor: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """Row by row: [B, X, ...], [B, Y] -> [B, Y, ...]."""
    return tf.gather(tensor, index, axis=1, batch_dims=1)
