"""Teacher-forced evaluation: loss, perplexity and accuracy per sub-word; log p of given pairs."""

import functools
import math
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from t2t_lite.data.pipeline import eval_batches
from t2t_lite.data.tokenizer import PAD, Vocabularies
from t2t_lite.models.ensemble import Ensemble
from t2t_lite.models.transformer import Transformer
from t2t_lite.training.loss import negative_log_likelihood

SCORE_TOKENS = 8192  # bounds rows x length of a batch, whose logits are that x V


class PairScore(NamedTuple):
    """One pair under the model."""

    line: int  # from 0
    log_prob: float  # of the target, EOS included, in nats
    tokens: int  # sub-words of the target, EOS included
    correct: int  # of them, those that the model finds most probable, given the ones before


class Perplexity:
    """Evaluates a model on pairs; it reads the model's variables as they are at each call.

    Args:
        model: Transformer, or Ensemble.
        vocabularies: Vocabularies.
        batch_tokens: bound on rows x length of a batch, or of all that are evaluated at the same
            time.
        workers: batches that are evaluated at the same time.
    """

    def __init__(
        self,
        model: Transformer | Ensemble,
        vocabularies: Vocabularies,
        batch_tokens: int = SCORE_TOKENS,
        workers: int = 1,
    ):
        self._vocabularies, self._workers = vocabularies, workers
        self._longest = model.longest
        self._batch_tokens = max(batch_tokens // workers, 1)
        self._run = tf.function(functools.partial(score_batch, model), reduce_retracing=True)

    def scores(self, pairs: Iterable[tuple[str, str]]) -> Iterator[PairScore]:
        """Each pair's score, grouped by length and so not in the pairs' order.

        A pair that is too long for the model gets a warning, and NaN over 0 sub-words.
        """
        kept, too_long = [], []

        def readable():
            for number, pair in enumerate(pairs):
                fits = self._fits(number, pair)
                (kept if fits else too_long).append(number)
                if fits:
                    yield pair

        batches = eval_batches(
            readable(), self._vocabularies, batch_tokens=self._batch_tokens, replicas=1
        )
        with ThreadPoolExecutor(self._workers) as pool:
            for rows in (map if self._workers == 1 else pool.map)(self._score, batches):
                yield from (row._replace(line=kept[row.line]) for row in rows)
        yield from (PairScore(number, math.nan, 0, 0) for number in too_long)

    def _fits(self, number: int, pair: tuple[str, str]) -> bool:
        """Whether the model can read both sides; warns where it cannot."""
        sides = self._vocabularies.source, self._vocabularies.target
        for vocabulary, text in zip(sides, pair):
            # A sub-word has a byte at least, but for the end and a space put before the text.
            if len(text.encode()) + 2 <= self._longest:
                continue
            length = len(vocabulary.encode_lines([text])[0])
            if length > self._longest:
                warnings.warn(
                    f"pair {number + 1}: {length:,} sub-words, and this model reads at most "
                    f"{self._longest:,}; it is left out of the figures",
                    stacklevel=2,
                )
                return False
        return True

    def _score(self, batch) -> list[PairScore]:
        inputs, targets, lines = batch
        columns = [
            array.numpy().tolist()
            for array in self._run(tf.constant(inputs[0, 0]), tf.constant(targets[0, 0]))
        ]
        return [
            PairScore(int(line), *figures)
            for line, *figures in zip(lines[0, 0], *columns)
            if line >= 0
        ]

    def figures(self, pairs: Iterable[tuple[str, str]]) -> dict[str, float]:
        """Loss in nats per sub-word, perplexity, accuracy (0 to 1) and sub-words, of all pairs."""
        return summary(self.scores(pairs))


def score_batch(
    model: Transformer | Ensemble, inputs: tf.Tensor, targets: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """inputs int32 [B, S], targets int32 [B, T] -> PairScore's figures of each row, in the graph.

    Returns:
        log_prob float32 [B], tokens int32 [B], correct int32 [B].
    """
    nll, correct = negative_log_likelihood(model(inputs, targets), targets)
    real = targets != PAD
    return (
        -tf.reduce_sum(tf.where(real, nll, 0.0), axis=1),
        tf.reduce_sum(tf.cast(real, tf.int32), axis=1),
        tf.reduce_sum(tf.cast(real & correct, tf.int32), axis=1),
    )


def summary(scores: Iterable[PairScore]) -> dict[str, float]:
    """The figures of some pairs together, without those that were too long."""
    table = np.array(
        [(score.log_prob, score.tokens, score.correct) for score in scores if score.tokens]
    ).reshape(-1, 3)
    log_prob, tokens, correct = table.sum(axis=0)
    loss = float(-log_prob / max(tokens, 1))
    return {
        "loss": loss,
        "perplexity": math.exp(min(loss, 700.0)),
        "accuracy": float(correct / max(tokens, 1)),
        "tokens": int(tokens),
    }
