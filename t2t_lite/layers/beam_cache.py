"""What the search needs of the decoder: one position at a time, of W beams, over a cache.

Self-attention's keys and values are made once and kept. What beam w wrote at position l stays in
its place (l, w), whatever becomes of the beams: not the cache is reordered but `written_by`, which
says for each beam and position whose entry is its own. So the W beams of a sentence are W queries
on the same keys, each behind its own mask, and neither cache nor memory is ever tiled over beams.

Writing copies the room for new positions, so what is written moves into the past, which is only
read, whenever the room grows.

A step of a few rows takes as long as its operations are many. So what can be one product is one, by
matrices that are put together before the first step, see `DecoderWeights`.

Shapes: L positions of room, P positions of the past, K = max(d_k, d_v).
"""

import math
from typing import Any, NamedTuple

from keras import ops

from t2t_lite.layers.attention import not_attended
from t2t_lite.layers.linear import reshape


class LayerWeights(NamedTuple):
    """The matrices of a DecoderLayer's attentions; heads narrower than K are filled up with zeros.

    Those of queries hold Equation 1's 1 / sqrt(d_k).
    """

    self_attention: Any  # [D, 3 * H * K], queries, keys and values
    self_output: Any  # [H * K, D]
    cross_queries: Any  # [D, H * K]
    cross_output: Any  # [H * K, D]


class DecoderWeights(NamedTuple):
    """What `project_memory` and `step` multiply by."""

    memory: Any  # [D, N * 2 * H * K], keys and values of each layer's cross-attention
    layers: list[LayerWeights]


class LayerCache(NamedTuple):
    """The keys and values of one layer's self-attention."""

    past_keys: Any  # [B, H, P * W, K]
    past_values: Any  # [B, H, P * W, K]
    keys: Any  # [B, H, L, W, K]
    values: Any  # [B, H, L, W, K]


class BeamCache(NamedTuple):
    """What `step` carries along; the first axis of each tensor is the sentence."""

    layers: list[LayerCache]
    written_by: Any  # int32 [B, W, P + L], the beam that wrote each beam's position; -1: none yet


def decoder_weights(decoder) -> DecoderWeights:
    """Puts them together from a Decoder's variables, as they are now."""

    def inwards(projection, heads, width, scale=1.0):
        """[D, H * width] -> [D, H, K]."""
        kernel = ops.cast(projection.kernel, decoder.compute_dtype) * scale
        return _filled_up(ops.reshape(kernel, (-1, heads, width)), 2, _width(decoder))

    def queries(attention):
        scale = 1.0 / math.sqrt(attention.d_k)
        return inwards(attention.query, attention.num_heads, attention.d_k, scale)

    def keys_and_values(attention):
        return [
            inwards(attention.key, attention.num_heads, attention.d_k),
            inwards(attention.value, attention.num_heads, attention.d_v),
        ]

    def joined(kernels):
        kernels = ops.concatenate(kernels, axis=1)
        return ops.reshape(kernels, (kernels.shape[0], -1))

    def output(attention):
        kernel = ops.cast(attention.output_projection.kernel, decoder.compute_dtype)
        heads = ops.reshape(kernel, (attention.num_heads, attention.d_v, -1))
        heads = _filled_up(heads, 1, _width(decoder))
        return ops.reshape(heads, (-1, heads.shape[2]))

    return DecoderWeights(
        memory=joined(
            [k for each in decoder.layers for k in keys_and_values(each.cross_attention)]
        ),
        layers=[
            LayerWeights(
                joined([queries(each.self_attention), *keys_and_values(each.self_attention)]),
                output(each.self_attention),
                joined([queries(each.cross_attention)]),
                output(each.cross_attention),
            )
            for each in decoder.layers
        ],
    )


def _width(decoder) -> int:
    """K."""
    return max(decoder.hparams.d_k, decoder.hparams.d_v)


def _filled_up(x, axis, size):
    """Zeros at the end of an axis until it has that size."""
    padding = [[0, 0] for _ in x.shape]
    padding[axis][1] = size - x.shape[axis]
    return ops.pad(x, padding) if padding[axis][1] else x


def start(decoder, batch, beam_size, max_length) -> BeamCache:
    """An empty cache of a Decoder, with room for `max_length` positions and no past."""

    def zeros(*sizes):
        sizes = batch, decoder.hparams.num_heads, *sizes, _width(decoder)
        return ops.zeros(sizes, decoder.compute_dtype)

    room = max_length, beam_size
    return BeamCache(
        layers=[LayerCache(zeros(0), zeros(0), zeros(*room), zeros(*room)) for _ in decoder.layers],
        written_by=ops.full((batch, beam_size, max_length), -1, "int32"),
    )


def grow(cache: BeamCache, positions: int) -> BeamCache:
    """Moves what is written into the past and makes room for so many more positions."""

    def room(new):
        batch, heads, _, beams, width = ops.shape(new)
        return ops.zeros((batch, heads, positions, beams, width), new.dtype)

    def longer(past, new):
        return ops.concatenate([past, _flat(new)], axis=2)

    return BeamCache(
        layers=[
            LayerCache(
                longer(layer.past_keys, layer.keys),
                longer(layer.past_values, layer.values),
                room(layer.keys),
                room(layer.values),
            )
            for layer in cache.layers
        ],
        written_by=ops.pad(cache.written_by, [[0, 0], [0, 0], [0, positions]], constant_values=-1),
    )


def reorder(cache: BeamCache, parents) -> BeamCache:
    """The cache after beam w has become the continuation of beam parents[b, w], int32 [B, W]."""
    written_by = ops.take_along_axis(cache.written_by, parents[:, :, None], axis=1)
    return cache._replace(written_by=written_by)


def project_memory(decoder, weights: DecoderWeights, memory):
    """[B, S, D] -> keys and values of each layer's cross-attention, made once a sentence.

    A list of pairs, [B, H, S, K] each.
    """
    rows = ops.reshape(memory, (-1, memory.shape[-1])) @ weights.memory
    batch, length, _ = ops.shape(memory)
    heads = _split_heads(rows, batch, length, 2 * len(decoder.layers), decoder.hparams.num_heads)
    return list(zip(heads[::2], heads[1::2], strict=True))


def step(decoder, weights, x, position, memories, cross_mask, cross_penalty, cache: BeamCache):
    """One position through all layers of a Decoder.

    Args:
        decoder: Decoder.
        weights: DecoderWeights.
        x: [B, W, D].
        position: int32 scalar.
        memories: of `project_memory`.
        cross_mask: bool [B, 1, 1, S].
        cross_penalty: subtracted from the scores of the cross-attention, as for `Decoder`, the
            beams in place of positions: broadcast to [B, H, W, S].
        cache: of `start`, or of the step before, with room at the position.

    Returns:
        ([B * W, D], the cache with this position written).
    """
    beams, length = ops.arange(x.shape[1]), ops.shape(cache.written_by)[2]
    here = ops.equal(ops.arange(length), position)
    written_by = ops.where(here, beams[:, None], cache.written_by)
    place = position - (length - ops.shape(cache.layers[0].keys)[2])
    of_self = not_attended(_self_mask(written_by, beams))
    of_cross = not_attended(cross_mask, cross_penalty)
    layers = []
    x = ops.reshape(x, (-1, x.shape[2]))
    for layer, own, memory, layer_cache in zip(
        decoder.layers, weights.layers, memories, cache.layers, strict=True
    ):
        x, layer_cache = _layer_step(layer, own, x, place, memory, of_self, of_cross, layer_cache)
        layers.append(layer_cache)
    x = decoder.final_norm(x) if decoder.final_norm else x
    return x, BeamCache(layers, written_by)


def _self_mask(written_by, beams):
    """Each beam sees what is its own: int32 [B, W, P + L], [W] -> bool [B, 1, W, (P + L) * W]."""
    mask = ops.equal(written_by[..., None], beams)  # [B, W, P + L, W]
    return ops.reshape(mask, (-1, 1, beams.shape[0], ops.shape(written_by)[2] * beams.shape[0]))


def _layer_step(layer, weights, x, place, memory, of_self, of_cross, cache):
    """One position through a DecoderLayer.

    Args:
        layer: DecoderLayer.
        weights: LayerWeights.
        x: [B * W, D].
        place: int32 scalar, where in the room it is written.
        memory: of `project_memory`, this layer's.
        of_self: subtracted from the scores of the self-attention.
        of_cross: likewise, of the cross-attention.
        cache: LayerCache.
    """
    batch, heads, _, beams, _ = ops.shape(cache.keys)

    def split_heads(rows, parts):
        return _split_heads(rows, batch, beams, parts, heads)

    def self_attention(y):
        queries, keys, values = split_heads(y @ weights.self_attention, 3)
        written = cache._replace(
            keys=_write(cache.keys, place, keys), values=_write(cache.values, place, values)
        )
        return _join_heads(_attend(queries, written, of_self)) @ weights.self_output, written

    def cross_attention(y):
        [queries], (keys, values) = split_heads(y @ weights.cross_queries, 1), memory
        scores = queries @ ops.swapaxes(keys, -1, -2)
        return _join_heads(_softmax(scores, of_cross) @ values) @ weights.cross_output, None

    x, cache, _ = layer.sublayers(x, self_attention, cross_attention)
    return x, cache


def _write(room, place, new):
    """[B, H, L, W, K] with new, [B, H, W, K], at the place."""
    if None not in room.shape:  # XLA then writes in place
        return ops.slice_update(room, (0, 0, place, 0, 0), new[:, :, None])
    here = ops.equal(ops.arange(ops.shape(room)[2]), place)
    return ops.where(here[:, None, None], new[:, :, None], room)


def _attend(queries, cache: LayerCache, subtracted):
    """Equation 1 over past and new keys, which are not copied to be one: -> [B, H, W, K]."""
    keys, values = _flat(cache.keys), _flat(cache.values)
    scores = queries @ ops.swapaxes(keys, -1, -2)
    if cache.past_keys.shape[2] == 0:
        return _softmax(scores, subtracted) @ values
    scores = ops.concatenate([queries @ ops.swapaxes(cache.past_keys, -1, -2), scores], axis=-1)
    weights, new = _softmax(scores, subtracted), keys.shape[2]
    return weights[..., :-new] @ cache.past_values + weights[..., -new:] @ values


def _softmax(scores, subtracted):
    """In float32, as `attention_weights`, and of the type of the scores."""
    weights = ops.softmax(ops.cast(scores, "float32") - subtracted, axis=-1)
    return ops.cast(weights, scores.dtype)


def _split_heads(rows, batch, length, parts, num_heads):
    """[B * length, parts * H * K] -> a list of parts, [B, H, length, K] each."""
    heads = reshape(rows, batch, length, parts * num_heads, rows.shape[1] // (parts * num_heads))
    return ops.split(ops.swapaxes(heads, 1, 2), parts, axis=1)


def _join_heads(heads):
    """[B, H, W, K] -> [B * W, H * K]."""
    _, count, _, width = heads.shape
    return ops.reshape(ops.swapaxes(heads, 1, 2), (-1, count * width))


def _flat(room):
    """[B, H, L, W, K] -> [B, H, L * W, K]."""
    batch, heads, length, beams, width = ops.shape(room)
    return reshape(room, batch, heads, length * beams, width)
