"""The Transformer (Figure 1)."""

import math

import keras
from keras import ops

from t2t_lite.config import HParams
from t2t_lite.layers import beam_cache
from t2t_lite.layers.attention import AttentionWeights, padding_mask
from t2t_lite.layers.decoder import Decoder
from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.embedding import Embedding, PositionalEncoding, TargetSpace
from t2t_lite.layers.encoder import Encoder
from t2t_lite.layers.fields import model_fields
from t2t_lite.layers.next_word import NextWord
from t2t_lite.layers.segments import segment_mask, segment_positions


class Transformer(keras.Model):
    """Encoder and decoder over embeddings that the softmax shares (section 3).

    All variables exist once the model is constructed. Padding is id 0 on both sides.

    Args:
        hparams: HParams.
        source_size: symbols of the source vocabulary.
        target_size: V, symbols of the target vocabulary.
        shared: True: one vocabulary, hence one matrix for both embeddings and the softmax
            (section 3.4); False: the target's embedding is tied to the softmax, the source has its
            own. Fields of hparams can take them apart.
        words: for hparams.next_word "given": for each source symbol whether a word begins with it,
            and for each target symbol whether it stands for a word.

    Call arguments:
        inputs: int32 [B, S], each row ends in EOS, then padding.
        targets: int32 [B, T], likewise; shifted right inside.
        seeds: DropoutSeeds in training, else None.

    Returns:
        logits, float32 [B, T, V].

    Example:
        model = Transformer(HParams(), 8000, 8000, shared=True)
        logits = model(inputs, targets)
    """

    def __init__(self, hparams, source_size, target_size, shared=True, words=None, **kwargs):
        super().__init__(**kwargs)
        self.hparams = h = HParams.of(hparams)
        self.source_size, self.target_size, self.shared = source_size, target_size, shared
        policy = self.dtype_policy

        def embedding(size, name):
            return Embedding(size, h.d_model, dtype=policy, name=name)

        if shared and h.share_embeddings:
            self.source_embedding = self.target_embedding = embedding(target_size, "embedding")
        else:
            self.target_embedding = embedding(target_size, "target_embedding")
            self.source_embedding = embedding(source_size, "source_embedding")
        self.softmax = self.target_embedding if h.tie_softmax else embedding(target_size, "softmax")
        self.target_space = (
            TargetSpace(dtype=policy, name="target_space") if h.target_space else None
        )
        self.source_positions = PositionalEncoding(
            h.positions, h.max_positions, dtype=policy, name="source_positions"
        )
        self.target_positions = PositionalEncoding(
            h.positions, h.max_positions, dtype=policy, name="target_positions"
        )
        self.next_word = NextWord(*words, h.num_heads) if h.next_word == "given" else None
        self.embedding_dropout = Dropout(h.dropout, dtype=policy, name="embedding_dropout")
        self.encoder = Encoder(h, dtype=policy, name="encoder")
        self.decoder = Decoder(h, dtype=policy, name="decoder")
        self.build()

    @property
    def longest(self) -> int:
        """Symbols of the longest line that can be read: its attention takes 2 GiB in float32."""
        return math.isqrt((2 << 30) // (4 * self.hparams.num_heads))

    def build(self, input_shape=None):
        """Makes all variables; no shape of an input is needed."""
        if self.built:
            return
        shape = (None, None, self.hparams.d_model)
        for part in (
            self.target_embedding, self.source_embedding, self.softmax, self.target_space,
            self.source_positions, self.target_positions,
            self.encoder, self.decoder,
        ):  # fmt: skip
            if part is not None and not part.built:
                part.build(shape)
        self.built = True

    def call(self, inputs, targets, seeds=None):
        """Predicts each target symbol from the inputs and the targets before it."""
        return self.softmax.logits(self.states(inputs, targets, seeds))

    def states(self, inputs, targets, seeds=None, segments=None):
        """What the logits are made of, [B, T, D]; arguments as `call` takes them.

        segments: of rows that hold several pairs, the segmentations int32 [B, S] and [B, T] of
            inputs and targets; each pair's states are those of the pair alone in a row.
        """
        if segments is None:
            return self._decode(inputs, self.encode(inputs, seeds), targets, seeds)
        memory = self.encode(inputs, seeds, segmentation=segments[0])
        return self._decode(inputs, memory, targets, seeds, segments=segments)

    def attention(self, inputs, targets):
        """Where the model looks as it predicts the targets, as `call` does.

        inputs int32 [B, S], targets int32 [B, T] -> AttentionWeights.
        """
        memory, of_encoder = self.encode(inputs, return_attention=True)
        _, of_self, of_cross = self._decode(inputs, memory, targets, return_attention=True)
        return AttentionWeights(of_encoder, of_self, of_cross)

    def encode(self, inputs, seeds=None, return_attention=False, segmentation=None):
        """Inputs int32 [B, S] -> memory [B, S, D], as `Encoder` returns it.

        segmentation: of rows that hold several inputs, see `layers.segments`.
        """
        x = self.source_embedding(inputs)
        if self.target_space is not None:
            x = self.target_space(x)
        if segmentation is None:
            mask, positions = padding_mask(inputs), None
        else:
            mask = segment_mask(segmentation, segmentation)
            positions = segment_positions(segmentation)
        x = self.embedding_dropout(self.source_positions(x, positions), seeds=seeds)
        return self.encoder(x, mask, seeds=seeds, return_attention=return_attention)

    def _decode(self, inputs, memory, targets, seeds=None, return_attention=False, segments=None):
        """As `Decoder` returns it, [B, T, D]."""
        shifted = ops.pad(targets[:, :-1], [[0, 0], [1, 0]])  # padding's embedding is zero
        self_mask, cross_mask, positions = None, padding_mask(inputs), None
        if segments is not None:
            source, target = segments
            self_mask, cross_mask = segment_mask(target, target), segment_mask(target, source)
            positions = segment_positions(target)
            shifted = ops.where(ops.equal(positions, 0), 0, shifted)
        x = self.target_positions(self.target_embedding(shifted), positions)
        x = self.embedding_dropout(x, seeds=seeds)
        penalty = 0.0
        if self.next_word is not None:
            named = ops.cumsum(self.next_word.count(shifted), axis=1)
            penalty = self.next_word.penalty(named, self.next_word.places(inputs))
        return self.decoder(
            x, memory, cross_mask, cross_penalty=penalty, self_mask=self_mask, seeds=seeds,
            return_attention=return_attention,
        )  # fmt: skip

    def search_weights(self):
        """The matrices that `start` and `step` multiply by, a nest of tensors, from the variables.

        Put together once, they serve as long as the variables stay as they are.
        """
        # Of few rows, the product with a matrix that has yet to be transposed takes much longer.
        return {
            "decoder": beam_cache.decoder_weights(self.decoder),
            "softmax": self.softmax.transposed(),
        }

    def start(self, weights, inputs, beam_size, max_length):
        """Encodes and makes what `step` needs.

        Args:
            weights: of `search_weights`.
            inputs: int32 [B, S].
            beam_size: W.
            max_length: L, static.

        Returns:
            (memory, cache). memory: tensors whose first axis is B, the same for all beams of a
            sentence. cache: likewise, what the beams have written; `reorder_cache` makes it follow
            them.
        """
        layers = beam_cache.project_memory(self.decoder, weights["decoder"], self.encode(inputs))
        memory = {"layers": layers, "padding": padding_mask(inputs)}
        batch = ops.shape(inputs)[0]
        cache = {"decoder": beam_cache.start(self.decoder, batch, beam_size, max_length)}
        if self.next_word is not None:
            memory["places"] = self.next_word.places(inputs)
            cache["named"] = ops.zeros((batch, beam_size), "int32")  # words, so far
        return memory, cache

    def reorder_cache(self, cache, parents):
        """The cache once beam w has become the continuation of beam parents[b, w], int32 [B, W]."""
        reordered = {"decoder": beam_cache.reorder(cache["decoder"], parents)}
        if self.next_word is not None:
            reordered["named"] = ops.take_along_axis(cache["named"], parents, axis=1)
        return reordered

    def grow_cache(self, cache, positions):
        """Room for so many more positions at the end of the cache."""
        return {**cache, "decoder": beam_cache.grow(cache["decoder"], positions)}

    def step(self, weights, ids, position, memory, cache):
        """One decoding step of W beams.

        Args:
            weights: of `search_weights`.
            ids: int32 [B, W], what was chosen at `position - 1`; padding at position 0.
            position: int32 scalar.
            memory: of `start`.
            cache: of `start`, or of the step before.

        Returns:
            (logits float32 [B, W, V], cache).
        """
        x = self.target_embedding(ids)
        x = self.target_positions(x, ops.reshape(position, (1,)))
        cache, memories, mask, penalty = dict(cache), memory["layers"], memory["padding"], 0.0
        if self.next_word is not None:
            cache["named"] += self.next_word.count(ids)
            penalty = self.next_word.penalty(cache["named"], memory["places"])
        x, cache["decoder"] = beam_cache.step(
            self.decoder, weights["decoder"], x, position, memories, mask, penalty, cache["decoder"]
        )
        logits = ops.cast(x @ weights["softmax"], "float32")
        return ops.reshape(logits, (-1, ids.shape[1], logits.shape[1])), cache

    def get_config(self):
        """What the constructor takes."""
        return {
            **super().get_config(),
            "hparams": model_fields(self.hparams),
            "source_size": self.source_size,
            "target_size": self.target_size,
            "shared": self.shared,
            "words": self.next_word and self.next_word.words(),
        }
