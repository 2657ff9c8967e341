"""The functions of an export, from strings to strings: a model and one way to search, as graphs.

Shapes: B batch, S source length, T target length, L output length, N n_best, V vocabulary.
"""

import dataclasses
from collections.abc import Callable, Sequence

import tensorflow as tf

from t2t_lite.data.tokenizer import EOS, PAD, Vocabulary
from t2t_lite.decoding.batches import BATCH_TOKENS
from t2t_lite.decoding.hypotheses import length_penalty
from t2t_lite.decoding.search import Search, run_search
from t2t_lite.evaluation.perplexity import SCORE_TOKENS, score_batch
from t2t_lite.export.metadata import NO_SCORE
from t2t_lite.problem import BLANK, grammar_of
from t2t_lite.translator import Translator

Tensors = dict[str, tf.Tensor]


class Signatures:
    """What an export can do.

    Each method takes a batch of any size, and all but those of attention work through it in batches
    of bounded size.

    Args:
        translator: Translator. Its problem says how text becomes input (`input_text_in_graph`) and
            what grammar outputs obey. How an output becomes text (`output_text`) is Python: the
            functions return what the model writes.
        search: Search; its n_best is the N of `n_best`.

    Every function raises InvalidArgumentError, naming the indices, for strings that are not UTF-8.
    """

    def __init__(self, translator: Translator, search: Search):
        self._model, self._vocabularies = translator.model, translator.vocabularies
        self._problem, self._how = translator.problem, search
        self._grammar = grammar_of(self._problem, self._vocabularies)
        self._weights = tf.nest.map_structure(
            lambda tensor: tf.Variable(tensor, trainable=False), self._model.search_weights()
        )

    @property
    def variables(self) -> list[tf.Variable]:
        """What the functions read: the model's, and what the search makes of them once."""
        return [variable.value for variable in self._model.weights] + tf.nest.flatten(self._weights)

    def functions(self) -> dict[str, tf.types.experimental.PolymorphicFunction]:
        """The functions by the names of their signatures."""

        def function(method, **arguments):
            specifications = [
                tf.TensorSpec(shape, dtype, name) for name, (shape, dtype) in arguments.items()
            ]
            return tf.function(method, specifications, autograph=False)

        texts = [None], tf.string
        return {
            "serving_default": function(self.best, text=texts),
            "n_best": function(self.n_best, text=texts),
            "ids": function(self.ids, ids=([None, None], tf.int32)),
            "score": function(self.score, text=texts, target=texts),
            "attention": function(self.attention, text=texts, target=texts),
            "attention_heads": function(self.attention_heads, text=texts, target=texts),
        }

    def best(self, text: tf.Tensor) -> Tensors:
        """string [B] -> the best outputs: text string [B], score and log_prob float32 [B]."""
        return {name: tensor[:, 0] for name, tensor in self._translate(text, 1).items()}

    def n_best(self, text: tf.Tensor) -> Tensors:
        """string [B] -> text string [B, N], score and log_prob float32 [B, N], best first.

        Places that no hypothesis takes have the text "" and as score and log_prob the lowest
        float32, -3.4e38.
        """
        return self._translate(text, self._how.n_best)

    def ids(self, ids: tf.Tensor) -> Tensors:
        """Rows of sub-words, int32 [B, S], ending in EOS, then padding -> the best outputs.

        ids int32 [B, L], likewise, score and log_prob float32 [B]. An output cut at its limit has
        no EOS. A row without symbols has an output without any, and score 0.
        """
        length = tf.shape(ids)[1] + self._how.extra_length

        def kept(outputs, log_probs):
            return tf.pad(outputs, [[0, 0], [0, 0], [0, length - tf.shape(outputs)[2]]])

        empty = tf.reduce_all((ids == PAD) | (ids == EOS), axis=1)
        outputs, score, log_prob = self._search(
            ids, empty, 1, kept, tf.zeros([tf.shape(ids)[0], 1, length], tf.int32)
        )
        return {"ids": outputs[:, 0], "score": score[:, 0], "log_prob": log_prob[:, 0]}

    def score(self, text: tf.Tensor, target: tf.Tensor) -> Tensors:
        """string [B], string [B] -> log_prob and score of the targets, float32 [B] each."""
        inputs, targets, lengths = self._pairs(text, target)

        def run(rows, longest):
            log_probs, tokens, _ = score_batch(
                self._model, *(tf.gather(ids, rows)[:, :longest] for ids in (inputs, targets))
            )
            return log_probs, log_probs / length_penalty(tokens, self._how.alpha)

        zeros = tf.zeros(tf.shape(lengths))
        all_rows = tf.range(tf.size(lengths))
        log_prob, score = _in_batches(
            all_rows, lengths, SCORE_TOKENS, lambda length: length, run, [zeros, zeros]
        )
        return {"log_prob": log_prob, "score": score}

    def attention(self, text: tf.Tensor, target: tf.Tensor) -> Tensors:
        """string [B], string [B] -> where each sub-word of the target looked in the text.

        attention: float32 [B, layers, T, S], the decoder's attention to the encoder's output in
            each layer, first to last, the mean over heads; a row sums to 1, rows and columns of
            padding are 0. The metadata's attention_layer says which layer makes the best heat map.
        source_pieces: string [B, S], SentencePiece's pieces, U+2581 where a word begins, the last
            one </s>, "" where there is padding.
        target_pieces: string [B, T], likewise.
        """
        inputs, targets, _ = self._pairs(text, target)
        layers = self._model.attention(inputs, targets).cross
        weights = tf.stack(
            [tf.reduce_mean(weights, axis=1) for weights in layers], axis=1
        )  # [B, layers, T, S]
        return {
            "attention": tf.where((targets != PAD)[:, None, :, None], weights, 0.0),
            **self._pieces(inputs, targets),
        }

    def attention_heads(self, text: tf.Tensor, target: tf.Tensor) -> Tensors:
        """string [B], string [B] -> where the model looked, of all kinds, layers and heads.

        cross: float32 [B, layers, heads, T, S], where each sub-word of the target looked in the
            text; rows and columns of padding are 0 here and below.
        encoder: float32 [B, layers, heads, S, S], where each sub-word of the text looked in the
            text; not there where the encoder has no self-attention.
        decoder: float32 [B, layers, heads, T, T], where the decoder looked, as it wrote a sub-word,
            in what it had read: padding, then the target but its last sub-word.
        source_pieces, target_pieces: as those of `attention`.
        """
        inputs, targets, _ = self._pairs(text, target)
        encoder, decoder, cross = self._model.attention(inputs, targets)
        kinds = {
            "encoder": (encoder, inputs),
            "decoder": (decoder, targets),
            "cross": (cross, targets),
        }
        return {
            name: tf.where((rows != PAD)[:, None, None, :, None], tf.stack(layers, axis=1), 0.0)
            for name, (layers, rows) in kinds.items()
            if layers
        } | self._pieces(inputs, targets)

    def _pieces(self, inputs: tf.Tensor, targets: tf.Tensor) -> Tensors:
        return {
            "source_pieces": _pieces(inputs, self._vocabularies.source),
            "target_pieces": _pieces(targets, self._vocabularies.target),
        }

    def _translate(self, text: tf.Tensor, n_best: int) -> Tensors:
        def texts(outputs, log_probs):  # int32 [B, N, L] -> string [B, N]
            shape = tf.shape(outputs)
            lines = self._vocabularies.target.decode(tf.reshape(outputs, [-1, shape[2]]))
            # One output is one line, so line ends that the model spells out become spaces.
            lines = tf.reshape(tf.strings.regex_replace(lines, r"[\r\n]", " "), shape[:2])
            return tf.where(log_probs > NO_SCORE, lines, "")

        inputs, blank = self._source(text), tf.strings.regex_full_match(text, f"{BLANK}*")
        outputs, score, log_prob = self._search(
            inputs, blank, n_best, texts, tf.fill([tf.size(text), n_best], "")
        )
        return {"text": outputs, "score": score, "log_prob": log_prob}

    def _search(
        self, inputs, empty, n_best: int, kept: Callable, nothing: tf.Tensor
    ) -> Sequence[tf.Tensor]:
        """The N best outputs of each row.

        Args:
            inputs: int32 [B, S].
            empty: bool [B], rows that are not searched for: their best output is empty, with log
                probability 0.
            n_best: N.
            kept: (ids int32 [b, N, L], log_probs float32 [b, N]) of some rows -> what is kept of
                them, [b, N, ...].
            nothing: [B, N, ...], that of empty outputs.

        Returns:
            What is kept [B, N, ...], scores and log_probs, float32 [B, N].
        """
        search = dataclasses.replace(self._how, n_best=n_best)
        lengths, forbidden = _lengths(inputs), self._vocabularies.target.forbidden

        def run(rows, longest):
            ids, limits = (
                tf.gather(inputs, rows)[:, :longest],
                tf.gather(lengths, rows) + search.extra_length,
            )
            free = tf.fill([tf.size(rows), longest + search.extra_length], PAD)
            found = run_search(
                *(self._model, forbidden, self._grammar, search, False),
                tf.nest.map_structure(tf.convert_to_tensor, self._weights),
                *(ids, free, limits),
            )
            return kept(found.ids, found.log_probs), *(
                tf.maximum(figure, NO_SCORE) for figure in (found.scores, found.log_probs)
            )

        rows = tf.where(~empty)[:, 0]
        none = tf.tile([[0.0] + [NO_SCORE] * (n_best - 1)], [tf.size(empty), 1])
        return _in_batches(
            rows,
            lengths,
            BATCH_TOKENS,
            search.row_tokens,
            run,
            [nothing, none, none],
        )

    def _source(self, text: tf.Tensor) -> tf.Tensor:
        """string [B] -> int32 [B, S]."""
        text = _utf8(text, "text")
        return self._vocabularies.source.encode(self._problem.input_text_in_graph(text)).to_tensor(
            PAD
        )

    def _pairs(self, text: tf.Tensor, target: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """string [B] each -> int32 [B, S], int32 [B, T], int32 [B]: the longer one's length."""
        equal = tf.debugging.assert_equal(
            tf.size(text), tf.size(target), "expected as many targets as texts"
        )
        with tf.control_dependencies([equal]):  # or what follows may fail first, and say less
            inputs = self._source(tf.identity(text))
            targets = self._vocabularies.target.encode(_utf8(target, "target")).to_tensor(PAD)
        return inputs, targets, tf.maximum(_lengths(inputs), _lengths(targets))


def _in_batches(
    rows: tf.Tensor,
    lengths: tf.Tensor,
    batch_tokens: int,
    row_tokens: Callable,
    run: Callable,
    results: Sequence[tf.Tensor],
) -> Sequence[tf.Tensor]:
    """Works through rows, the longest first, in batches whose memory is bounded.

    Args:
        rows: int [R], which rows.
        lengths: int32 [B], of all rows.
        batch_tokens: bounds R * row_tokens(length of the longest) of a batch, unless it is one row.
        run: (rows int [R], length of the longest) -> results of those rows, [R, ...] each.
        results: [B, ...] each, what is written into; the other rows stay as they are.
    """
    rows = tf.gather(rows, tf.argsort(tf.gather(lengths, rows), direction="DESCENDING"))

    def batch(start, results):
        longest = lengths[rows[start]]
        chosen = rows[start : start + tf.maximum(batch_tokens // row_tokens(longest), 1)]
        new = run(chosen, longest)
        results = [
            tf.tensor_scatter_nd_update(old, chosen[:, None], part)
            for old, part in zip(results, new)
        ]
        return start + tf.size(chosen), results

    # One at a time: batches do not wait for each other's results, and many at once would need many
    # times the memory.
    _, results = tf.while_loop(
        lambda start, results: start < tf.size(rows),
        batch,
        (tf.constant(0), list(results)),
        parallel_iterations=1,
    )
    return results


def _lengths(ids: tf.Tensor) -> tf.Tensor:
    """int32 [B, S] -> int32 [B], without padding."""
    return tf.reduce_sum(tf.cast(ids != PAD, tf.int32), axis=1)


def _pieces(ids: tf.Tensor, vocabulary: Vocabulary) -> tf.Tensor:
    return tf.where(ids == PAD, "", tf.gather(vocabulary.pieces(range(vocabulary.size)), ids))


def _utf8(text: tf.Tensor, name: str) -> tf.Tensor:
    """string [B], itself. Raises InvalidArgumentError, naming the indices, for what is not UTF-8.

    Replacing what is not UTF-8 leaves all other strings as they are.
    """
    valid = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8") == text
    valid = tf.debugging.Assert(
        tf.reduce_all(valid),
        [f"{name}: expected UTF-8; not so at the indices", tf.where(~valid)[:, 0]],
    )
    with tf.control_dependencies([valid]):
        return tf.identity(text)
