"""What the search needs of the decoder: one position at a time, of W beams, over a cache.

Self-attention's keys and values are made once and kept. What beam w wrote at position l stays in
its place (l, w), whatever becomes of the beams: not the cache is reordered but `written_by`, which
says for each beam and position whose entry is its own. So the W beams of a sentence are W queries
on the same keys, each behind its own mask, and neither cache nor memory is ever tiled over beams.

Writing copies the room for new positions, so what is written moves into the past, which is only
read, whenever the room grows.

Shapes: L positions of room, P positions of the past.
"""

from typing import Any, NamedTuple

from keras import ops

from t2t_lite.layers.attention import (
    attention_weights,
    scaled,
    scaled_dot_product_attention,
)
from t2t_lite.layers.linear import reshape


class LayerCache(NamedTuple):
    """The keys and values of one layer's self-attention."""

    past_keys: Any  # [B, H, P * W, d_k]
    past_values: Any  # [B, H, P * W, d_v]
    keys: Any  # [B, H, L, W, d_k]
    values: Any  # [B, H, L, W, d_v]


class BeamCache(NamedTuple):
    """What `step` carries along; the first axis of each tensor is the sentence."""

    layers: list[LayerCache]
    written_by: Any  # int32 [B, W, P + L], the beam that wrote each beam's position; -1: none yet


def start(decoder, batch, beam_size, max_length) -> BeamCache:
    """An empty cache of a Decoder, with room for `max_length` positions and no past."""

    def layer_cache(attention):
        def zeros(*sizes):
            return ops.zeros((batch, attention.num_heads, *sizes), decoder.compute_dtype)

        return LayerCache(
            past_keys=zeros(0, attention.d_k),
            past_values=zeros(0, attention.d_v),
            keys=zeros(max_length, beam_size, attention.d_k),
            values=zeros(max_length, beam_size, attention.d_v),
        )

    return BeamCache(
        layers=[layer_cache(layer.self_attention) for layer in decoder.layers],
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


def project_memory(decoder, memory):
    """[B, S, D] -> each layer's keys and values of the cross-attention, made once a sentence."""
    return [layer.cross_attention.project_memory(memory) for layer in decoder.layers]


def step(decoder, x, position, memories, cross_mask, cross_penalty, cache: BeamCache):
    """One position through all layers of a Decoder.

    Args:
        decoder: Decoder.
        x: [B, W, D].
        position: int32 scalar.
        memories: of `project_memory`.
        cross_mask: bool [B, 1, 1, S].
        cross_penalty: subtracted from the scores of the cross-attention, as for `Decoder`, the
            beams in place of positions: broadcast to [B, H, W, S].
        cache: of `start`, or of the step before, with room at the position.

    Returns:
        ([B, W, D], the cache with this position written).
    """
    beams, length = ops.arange(x.shape[1]), ops.shape(cache.written_by)[2]
    here = ops.equal(ops.arange(length), position)
    written_by = ops.where(here, beams[:, None], cache.written_by)
    mask = _self_mask(written_by, beams)
    past = length - ops.shape(cache.layers[0].keys)[2]
    layers = []
    for layer, memory, layer_cache in zip(decoder.layers, memories, cache.layers, strict=True):
        x, layer_cache = _layer_step(
            layer, x, position - past, memory, cross_mask, cross_penalty, layer_cache, mask
        )
        layers.append(layer_cache)
    x = decoder.final_norm(x) if decoder.final_norm else x
    return x, BeamCache(layers, written_by)


def _self_mask(written_by, beams):
    """Each beam sees what is its own: int32 [B, W, P + L], [W] -> bool [B, 1, W, (P + L) * W]."""
    mask = ops.equal(written_by[..., None], beams)  # [B, W, P + L, W]
    return ops.reshape(mask, (-1, 1, beams.shape[0], ops.shape(written_by)[2] * beams.shape[0]))


def _layer_step(layer, x, place, memory, cross_mask, cross_penalty, cache, self_mask):
    """One position through a DecoderLayer; `place`: where in the room it is written."""

    def self_attention(y):
        attention = layer.self_attention
        keys, values = attention.project_memory(y)  # [B, H, W, K]
        written = cache._replace(
            keys=_write(cache.keys, place, keys), values=_write(cache.values, place, values)
        )
        heads = _attend(attention.project_queries(y), written, self_mask)
        return attention.join_heads(heads), written

    def cross_attention(y):
        attention = layer.cross_attention
        return attention.attend(attention.project_queries(y), *memory, cross_mask, cross_penalty)

    x, cache, _ = layer.sublayers(x, self_attention, cross_attention)
    return x, cache


def _write(room, place, new):
    """[B, H, L, W, K] with new, [B, H, W, K], at the place."""
    here = ops.equal(ops.arange(ops.shape(room)[2]), place)
    return ops.where(here[:, None, None], new[:, :, None], room)


def _attend(queries, cache: LayerCache, mask):
    """Equation 1 over past and new keys, which are not copied to be one: -> [B, H, W, d_v]."""
    keys, values = _flat(cache.keys), _flat(cache.values)
    if cache.past_keys.shape[2] == 0:
        return scaled_dot_product_attention(queries, keys, values, mask)[0]
    queries = scaled(queries)
    scores = [queries @ ops.swapaxes(part, -1, -2) for part in (cache.past_keys, keys)]
    weights = attention_weights(ops.concatenate(scores, axis=-1), mask)
    weights, new = ops.cast(weights, values.dtype), keys.shape[2]
    return weights[..., :-new] @ cache.past_values + weights[..., -new:] @ values


def _flat(room):
    """[B, H, L, W, K] -> [B, H, L * W, K]."""
    batch, heads, length, beams, width = ops.shape(room)
    return reshape(room, batch, heads, length * beams, width)
