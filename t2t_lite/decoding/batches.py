"""Lines in, hypotheses out: searched in batches side by side, and put in order again.

Exactly one list of hypotheses a line, whatever the lines hold.
"""

import itertools
import queue
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

import numpy as np
import tensorflow as tf

from t2t_lite.data.tokenizer import Vocabularies
from t2t_lite.decoding.constraint import Brackets
from t2t_lite.decoding.rows import Batch, Hypothesis, Row, cut
from t2t_lite.decoding.search import Sampling, Search, run_search
from t2t_lite.errors import UserError
from t2t_lite.models.ensemble import Ensemble
from t2t_lite.models.transformer import Transformer
from t2t_lite.problem import Problem, grammar_of, output_line

_WINDOW = 4096  # lines read, sorted and decoded at a time, per device: memory is bounded
# Bounds rows * W * (S + L) of all batches that are decoded at the same time, which their caches
# grow with; on GPUs of each.
BATCH_TOKENS, _BATCH_TOKENS_GPU = 65_536, 131_072
_LEAST_BATCH_TOKENS = 8_192  # of many at the same time


class BatchedSearch:
    """Searches for the outputs of lines, in batches of bounded memory on every device.

    Args:
        model: Transformer, or Ensemble.
        vocabularies: Vocabularies.
        problem: Problem; says how to decode unless told otherwise, and how text goes in and out.
        devices: TensorFlow's names of the devices to use; default: all GPUs, or the CPU. The first
            has `model` itself, as it is at each call; the others have copies of it as it is now.
        batch_tokens: bounds rows * W * (S + L) of a batch.
        xla: whether XLA compiles the search. Default: on GPUs only; on CPUs it is not faster.
        workers: batches that are decoded at the same time on each device.
        frozen: the model's variables stay as they are, but for `update`. So what follows from them
            is made once, and not for each batch.
    """

    def __init__(
        self,
        model: Transformer | Ensemble,
        vocabularies: Vocabularies,
        problem: Problem,
        *,
        devices: Sequence[str] | None = None,
        batch_tokens: int | None = None,
        xla: bool | None = None,
        workers: int = 1,
        frozen: bool = False,
    ):
        gpus = [device.name for device in tf.config.list_logical_devices("GPU")]
        self.vocabularies, self.problem = vocabularies, problem
        self.devices = list(devices or gpus or ["CPU:0"])
        default = _BATCH_TOKENS_GPU if gpus else max(BATCH_TOKENS // workers, _LEAST_BATCH_TOKENS)
        self.batch_tokens = batch_tokens or default
        self._xla = bool(gpus) if xla is None else xla
        self._models = [model, *(_copy(model, device) for device in self.devices[1:])]
        self._grammar, self._longest = grammar_of(problem, vocabularies), model.longest
        programs = [
            _Program(*pair, vocabularies.target.forbidden, self._grammar, self._xla, frozen)
            for pair in zip(self._models, self.devices)
        ]
        self._programs = programs * workers  # one for each batch at a time

    def update(self) -> None:
        """Takes the model's variables as they are now, here and on further devices."""
        model, *copies = self._models
        for copy in copies:
            copy.set_weights(model.get_weights())
        for program in self._programs:
            program.update()

    @property
    def window(self) -> int:
        """Lines that are read, sorted and decoded at a time."""
        return _WINDOW * len(self.devices)

    def stream(
        self,
        lines: Iterable[str],
        *,
        beam_size: int | None = None,
        alpha: float | None = None,
        extra_length: int | None = None,
        n_best: int = 1,
        prefixes: Iterable[str] | None = None,
        sampling: Sampling | None = None,
        constrained: bool = True,
        seed: int = 1,
        first: int = 0,
        progress: Callable[[int, int], object] = lambda lines, subwords: None,
    ) -> Iterator[list[Hypothesis]]:
        """Yields each line's hypotheses, best first, reading the lines a window at a time.

        Args:
            lines: texts without their line ends. One that is empty or all whitespace gets an empty
                output (its prefix, where it has one) with log probability 0; so does one of more
                sub-words than `Transformer.longest`, with a warning.
            beam_size: W; default: the problem's. With 1 the search is greedy.
            alpha: exponent of the length penalty (section 6.1); default: the problem's.
            extra_length: sub-words an output may have beyond its input's; default: the problem's.
            n_best: how many hypotheses a line gets at most.
            prefixes: what each line's output must begin with; an empty one leaves it free.
            sampling: draw n_best outputs instead of searching.
            constrained: obey the grammar of outputs, where the problem has one; prefixes go
                without it.
            seed: of the samples; a line's follow from it and from the line's number.
            first: the number of the first line.
            progress: called with the number of lines just done, and of the sub-words that were read
                of them, EOS included.
        """
        search = Search.of(
            self.problem.decoding,
            beam_size=beam_size,
            alpha=alpha,
            extra_length=extra_length,
            n_best=n_best,
            sampling=sampling,
            constrained=constrained and self._grammar is not None,
        )
        if prefixes is not None and search.constrained:
            raise UserError(
                f"problem {self.problem.name} has a grammar of outputs, which may forbid a prefix; "
                "turn it off first"
            )
        rows = self._rows(lines, prefixes, first)
        while window := list(itertools.islice(rows, self.window)):
            left = [row for row in window if not self._answered(row)]
            progress(len(window) - len(left), 0)
            for done in self._decode(left, search, seed):
                progress(len(done), sum(len(row.inputs) for row in done))
            yield from (row.outputs for row in window)

    def _answered(self, row: Row) -> bool:
        """Fills in the output of a row that no search is made for: one is blank or too long."""
        if row.line.strip() and row.length <= self._longest:
            return False
        if row.line.strip():
            warnings.warn(
                f"line {row.number + 1}: {row.length:,} sub-words, and this model reads at most "
                f"{self._longest:,}; its output is left empty",
                stacklevel=2,
            )
            row.outputs = [self._hypothesis("", row.line)]
        else:
            [text] = self.vocabularies.target.decode_lines([row.prefix])
            row.outputs = [Hypothesis(text, 0.0, 0.0, self.problem.output_details(text, row.line))]
        return True

    def _rows(
        self, lines: Iterable[str], prefixes: Iterable[str] | None, first: int = 0
    ) -> Iterator[Row]:
        source, target = self.vocabularies.source, self.vocabularies.target
        beginnings = itertools.repeat("") if prefixes is None else prefixes
        pairs = (zip if prefixes is None else itertools.zip_longest)(lines, beginnings)
        for number, (line, prefix) in enumerate(pairs, first):
            if line is None or prefix is None:
                ended = "lines" if line is None else "prefixes"
                raise UserError(f"only {number} {ended}; expected a prefix for each line")
            [inputs] = source.encode_lines([self.problem.input_text(line)])
            [begin] = target.encode_lines([prefix])
            if target.decode_lines([begin]) != [prefix]:
                raise UserError(
                    f"prefix {number + 1}: {prefix[:40]!r} cannot be spelled by the vocabulary; "
                    f"nearest: {target.decode_lines([begin])[0][:40]!r}"
                )
            yield Row(number, line, inputs, begin[:-1])  # a prefix does not end: no EOS

    def _decode(self, rows: list[Row], search: Search, seed: int) -> Iterator[list[Row]]:
        """Fills in the rows' outputs, a batch at a time on each device; yields each."""
        batches = cut(
            rows,
            search,
            batch_tokens=self.batch_tokens,
            shares=len(self._programs),
            few_shapes=self._xla,
        )
        if len(self._programs) == 1:
            [program] = self._programs
            yield from (self._decode_batch(program, batch, search, seed) for batch in batches)
            return
        free = queue.SimpleQueue()
        for program in self._programs:
            free.put(program)

        def decode(batch):
            program = free.get()
            try:
                return self._decode_batch(program, batch, search, seed)
            finally:
                free.put(program)

        pool = ThreadPoolExecutor(len(self._programs))
        try:
            for future in as_completed([pool.submit(decode, batch) for batch in batches]):
                yield future.result()
        finally:
            # After an error or an interrupt the other batches are for nobody.
            pool.shutdown(cancel_futures=True)

    def _decode_batch(
        self, program: "_Program", batch: Batch, search: Search, seed: int
    ) -> list[Row]:
        outputs = program(batch.arrays(search, seed), search)
        for row, ids, log_probs, scores in zip(batch.rows, *outputs):
            texts = self.vocabularies.target.decode_lines(ids.tolist())
            row.outputs = [
                self._hypothesis(text, row.line, float(score), float(log_prob))
                for text, score, log_prob in zip(texts, scores, log_probs)
                if np.isfinite(log_prob)  # -inf: fewer than n_best exist
            ]
        return batch.rows

    def _hypothesis(
        self, text: str, line: str, score: float = 0.0, log_prob: float = 0.0
    ) -> Hypothesis:
        details = self.problem.output_details(text, line)
        return Hypothesis(output_line(self.problem, text, line), score, log_prob, details)


class _Program:
    """The model on one device, with a function for each way to search.

    A function is one graph for each shape under XLA, else one for all.
    """

    def __init__(
        self,
        model: Transformer | Ensemble,
        device: str,
        forbidden: Sequence[int],
        grammar: Brackets | None,
        xla: bool,
        frozen: bool,
    ):
        self._how, self._device, self._xla = (model, forbidden, grammar), device, xla
        self._frozen, self._weights = frozen, ()
        self._functions: dict[Search, tf.types.experimental.PolymorphicFunction] = {}

    def update(self) -> None:
        """Forgets what was made of the model's variables."""
        self._weights = ()

    def __call__(self, arrays: list[np.ndarray], search: Search) -> list[np.ndarray]:
        """`Batch.arrays` -> ids [B, N, L], log_probs [B, N], scores [B, N]."""
        with tf.device(self._device):
            if self._frozen and not self._weights:
                self._weights = self._how[0].search_weights()
            if search not in self._functions:
                # Of several threads' functions the first, so that one is traced.
                self._functions.setdefault(search, self._function(search))
            tensors = map(tf.constant, arrays)
            return [tensor.numpy() for tensor in self._functions[search](self._weights, *tensors)]

    def _function(self, search: Search) -> tf.types.experimental.PolymorphicFunction:
        def run(weights, *arrays):
            weights = weights or self._how[0].search_weights()
            return run_search(*self._how, search, self._xla, weights, *arrays)

        if self._xla:
            return tf.function(run, autograph=False, jit_compile=True)
        weights = tf.nest.map_structure(tf.TensorSpec.from_tensor, self._weights)
        return tf.function(run, [weights, *_any_shape(search)], autograph=False)


def _any_shape(search: Search) -> list:
    """The arguments' specifications where B, S and L differ from call to call."""
    inputs, prefix, limits = (
        tf.TensorSpec(shape, tf.int32) for shape in ([None, None], [None, None], [None])
    )
    uniforms = tf.TensorSpec([None, search.width, None], tf.float32)
    return [inputs, prefix, limits, *([uniforms] if search.sampling else [])]


def _copy(model: Transformer | Ensemble, device: str) -> Transformer:
    with tf.device(device):
        copy = type(model).from_config(model.get_config())
        copy.set_weights(model.get_weights())
    return copy
