"""The decoder: self-attention to the left, attention to the encoder's output, feed-forward network (section 3.1)."""

import keras
from keras import ops

from t2t_lite.config import HParams
from t2t_lite.layers.attention import MultiHeadAttention, causal_mask
from t2t_lite.layers.feed_forward import PositionwiseFeedForward
from t2t_lite.layers.linear import reshape
from t2t_lite.layers.residual import Residual, layer_normalization


class DecoderLayer(keras.Layer):
    """Three sub-layers, each in its residual connection (Figure 1, right).

    Args:
        hparams: HParams.

    Call arguments:
        x: [B, T, D].
        memory: [B, S, D], the encoder's output.
        self_mask: bool [1, 1, T, T], `causal_mask`.
        memory_mask: bool [B, 1, 1, S], `padding_mask` of the source, or float32 [B, H, T, S], what the scores lose.
        seeds: DropoutSeeds in training, else None.

    Returns:
        [B, T, D].

    """

    def __init__(self, hparams, **kwargs):
        super().__init__(**kwargs)
        self.hparams = h = HParams.of(hparams)
        policy = self.dtype_policy

        def attention(name):
            return MultiHeadAttention(
                h.num_heads, h.d_k, h.d_v, h.attention_dropout, dtype=policy, name=name
            )

        def residual(name):
            return Residual(h.norm, h.dropout, dtype=policy, name=name)

        self.self_attention = attention("self_attention")
        self.self_attention_residual = residual("self_attention_residual")
        self.memory_attention = attention("memory_attention")
        self.memory_attention_residual = residual("memory_attention_residual")
        self.feed_forward = PositionwiseFeedForward(
            h.d_ff, h.relu_dropout, dtype=policy, name="feed_forward"
        )
        self.feed_forward_residual = residual("feed_forward_residual")

    def build(self, input_shape):
        for part in (
            self.self_attention, self.self_attention_residual, self.memory_attention, self.memory_attention_residual,
            self.feed_forward, self.feed_forward_residual,
        ):  # fmt: skip
            part.build(input_shape)

    def call(self, x, memory, self_mask, memory_mask, seeds=None):
        return self.with_attention(x, memory, self_mask, memory_mask, seeds)[0]

    def with_attention(self, x, memory, self_mask, memory_mask, seeds=None):
        """What `call` returns, and the weights of the attention to the memory, float32 [B, H, T, S]."""
        weights = None

        def attend_to_memory(y):
            nonlocal weights
            attention = self.memory_attention
            queries, keys_and_values = (
                attention.project_queries(y),
                attention.project_memory(memory),
            )
            y, weights = attention.attend(queries, *keys_and_values, memory_mask, seeds)
            return y

        x = self.self_attention_residual(
            x, sublayer=lambda y: self.self_attention(y, y, self_mask, seeds=seeds), seeds=seeds
        )
        x = self.memory_attention_residual(x, sublayer=attend_to_memory, seeds=seeds)
        x = self.feed_forward_residual(
            x, sublayer=lambda y: self.feed_forward(y, seeds=seeds), seeds=seeds
        )
        return x, weights

    def start_cache(self, batch, beam_size, max_length):
        """Self-attention's keys and values: room for L positions, and the past before them, P positions, which is only read.

        {"keys": [B, H, L, W, d_k], "past_keys": [B, H, P * W, d_k], and the same of "values"}; P is 0 at the start.
        """
        h = self.hparams
        cache = {}
        for name, width in ("keys", h.d_k), ("values", h.d_v):
            cache[name] = ops.zeros(
                (batch, h.num_heads, max_length, beam_size, width), self.compute_dtype
            )
            cache[f"past_{name}"] = ops.zeros((batch, h.num_heads, 0, width), self.compute_dtype)
        return cache

    def grow_cache(self, cache, positions):
        """Puts the positions that are written to the past and makes room for so many more."""
        grown = {}
        for name in "keys", "values":
            batch, heads, _, beams, width = ops.shape(cache[name])
            grown[name] = ops.zeros((batch, heads, positions, beams, width), self.compute_dtype)
            grown[f"past_{name}"] = ops.concatenate(
                [cache[f"past_{name}"], _flatten_places(cache[name])], axis=2
            )
        return grown

    def step(self, x, position, memory, memory_mask, cache, cache_mask):
        """One position of each of W beams.

        Args:
            x: [B, W, D].
            position: int32 scalar, where in the cache's room x's keys and values are written.
            memory: (keys [B, H, S, d_k], values [B, H, S, d_v]) of `memory_attention.project_memory`.
            memory_mask: bool [B, 1, 1, S], or float32 [B, H, W, S].
            cache: as `start_cache`.
            cache_mask: bool [B, 1, W, (P + L) * W], which places of the cache each beam attends to.

        Returns:
            ([B, W, D], the cache with this position written).

        """
        written = dict(cache)

        def read(name):
            past, new = cache[f"past_{name}"], _flatten_places(written[name])
            return [past, new] if past.shape[2] != 0 else new

        # The W beams of a sentence are W queries on the same keys: neither cache nor memory is by beam.
        def attend_to_left(y):
            keys, values = self.self_attention.project_memory(y)  # [B, H, W, K]
            written["keys"] = _write(cache["keys"], position, keys)
            written["values"] = _write(cache["values"], position, values)
            queries = self.self_attention.project_queries(y)
            return self.self_attention.attend(queries, read("keys"), read("values"), cache_mask)[0]

        def attend_to_memory(y):
            queries = self.memory_attention.project_queries(y)
            return self.memory_attention.attend(queries, *memory, memory_mask)[0]

        x = self.self_attention_residual(x, sublayer=attend_to_left)
        x = self.memory_attention_residual(x, sublayer=attend_to_memory)
        return self.feed_forward_residual(x, sublayer=self.feed_forward), written

    def get_config(self):
        return {**super().get_config(), "hparams": self.hparams.to_dict()}


class Decoder(keras.Layer):
    """N decoder layers; with pre-norm a final normalisation too.

    Args:
        hparams: HParams.

    Call arguments:
        x: [B, T, D].
        memory: [B, S, D].
        memory_mask: bool [B, 1, 1, S].
        seeds: DropoutSeeds in training, else None.

    Returns:
        [B, T, D].

    """

    def __init__(self, hparams, **kwargs):
        super().__init__(**kwargs)
        self.hparams = h = HParams.of(hparams)
        policy = self.dtype_policy
        self.layers = [
            DecoderLayer(h, dtype=policy, name=f"layer_{i}") for i in range(h.num_decoder_layers)
        ]
        self.final_norm = layer_normalization(policy, "final_norm") if h.norm == "pre" else None

    def build(self, input_shape):
        for layer in self.layers:
            layer.build(input_shape)
        if self.final_norm:
            self.final_norm.build(input_shape)

    def call(self, x, memory, memory_mask, seeds=None):
        self_mask = causal_mask(ops.shape(x)[1])
        for layer in self.layers:
            x = layer(x, memory, self_mask, memory_mask, seeds=seeds)
        return self.final_norm(x) if self.final_norm else x

    def attention(self, x, memory, memory_mask):
        """Each layer's weights of the attention to the memory, float32 [B, H, T, S]; arguments as `call`'s."""
        self_mask, layers = causal_mask(ops.shape(x)[1]), []
        for layer in self.layers:
            x, weights = layer.with_attention(x, memory, self_mask, memory_mask)
            layers.append(weights)
        return layers

    def project_memory(self, memory):
        """[B, S, D] -> each layer's (keys, values), made once a sentence."""
        return [layer.memory_attention.project_memory(memory) for layer in self.layers]

    def start_cache(self, batch, beam_size, max_length):
        """What `step` carries along.

        "layers": each layer's keys and values. What beam w wrote at position l stays in place (l, w), whatever becomes of the
            beams.
        "written_by": int32 [B, W, L], which beam wrote what now is each beam's position l; -1 where nothing is written.
        """
        return {
            "layers": [layer.start_cache(batch, beam_size, max_length) for layer in self.layers],
            "written_by": ops.full((batch, beam_size, max_length), -1, "int32"),
        }

    def reorder_cache(self, cache, parents):
        """The cache after each beam w has become the continuation of beam parents[b, w], int32 [B, W]."""
        return {
            **cache,
            "written_by": ops.take_along_axis(cache["written_by"], parents[:, :, None], axis=1),
        }

    def grow_cache(self, cache, positions):
        """Room for so many more positions."""
        return {
            "layers": [
                layer.grow_cache(part, positions)
                for layer, part in zip(self.layers, cache["layers"])
            ],
            "written_by": ops.pad(
                cache["written_by"], [[0, 0], [0, 0], [0, positions]], constant_values=-1
            ),
        }

    def step(self, x, position, memories, memory_mask, cache):
        """One position through all layers: ([B, W, D], cache); arguments as `DecoderLayer.step`."""
        beams = ops.arange(x.shape[1])
        length = ops.shape(cache["written_by"])[2]
        here = ops.equal(ops.arange(length), position)
        written_by = ops.where(here, beams[:, None], cache["written_by"])  # [B, W, L]
        mask = ops.equal(written_by[..., None], beams)  # [B, W, L, W]
        mask = ops.reshape(mask, (-1, 1, x.shape[1], length * x.shape[1]))
        past = length - ops.shape(cache["layers"][0]["keys"])[2]
        layers = []
        for layer, memory, layer_cache in zip(self.layers, memories, cache["layers"]):
            x, layer_cache = layer.step(x, position - past, memory, memory_mask, layer_cache, mask)
            layers.append(layer_cache)
        x = self.final_norm(x) if self.final_norm else x
        return x, {"layers": layers, "written_by": written_by}

    def get_config(self):
        return {**super().get_config(), "hparams": self.hparams.to_dict()}


def _write(cache, position, new):
    """[B, H, L, W, K] with new, [B, H, W, K], at the position."""
    here = ops.equal(ops.arange(ops.shape(cache)[2]), position)
    return ops.where(here[:, None, None], new[:, :, None], cache)


def _flatten_places(cache):
    """[B, H, L, W, K] -> [B, H, L * W, K]."""
    batch, heads, length, beams, width = ops.shape(cache)
    return reshape(cache, batch, heads, length * beams, width)
