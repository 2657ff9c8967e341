"""The decoder: lines in, hypotheses out, exactly one list a line and in order, whatever the lines hold."""

import dataclasses
import functools
import itertools
import math
import queue
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

import numpy as np
import tensorflow as tf

from t2t_lite.data.tokenizer import PAD, Vocabularies
from t2t_lite.decoding.beam_search import STAGE, Hypotheses, beam_search, size
from t2t_lite.decoding.constraint import Brackets
from t2t_lite.decoding.sampling import sample
from t2t_lite.devices import calls_side_by_side
from t2t_lite.errors import UserError
from t2t_lite.models.transformer import Transformer
from t2t_lite.problem import Problem

_WINDOW = (
    4096  # lines read, sorted and decoded at a time, per device: memory does not grow with the file
)
# Bounds rows * W * (S + L) of all batches that are decoded at the same time, which their caches grow with; on GPUs of each.
BATCH_TOKENS, _BATCH_TOKENS_GPU = 65_536, 131_072
_LEAST_BATCH_TOKENS = 8_192  # of many at the same time


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """One output of one line."""

    text: str
    score: float  # log_prob / length penalty
    log_prob: float  # of all its sub-words, EOS included
    details: dict = dataclasses.field(default_factory=dict)  # what else the problem says of it


@dataclasses.dataclass(frozen=True)
class Sampling:
    """Draws outputs instead of searching for the best."""

    temperature: float = 1.0  # divides the logits
    top_k: int | None = None  # only the k most probable sub-words; None: all


@dataclasses.dataclass(frozen=True)
class Search:
    """How to decode: what a compiled function is specific to, beside its shapes."""

    beam_size: int
    alpha: float
    extra_length: int
    n_best: int
    sampling: Sampling | None
    constrained: bool

    def __post_init__(self):
        for name, least in ("beam_size", 1), ("n_best", 1), ("alpha", 0), ("extra_length", 0):
            if not getattr(self, name) >= least:
                raise UserError(f"{name}={getattr(self, name)}: expected at least {least}")
        if self.sampling is None and self.n_best > self.beam_size:
            raise UserError(f"n_best={self.n_best}: expected at most beam_size={self.beam_size}")
        if self.sampling and not self.sampling.temperature > 0:
            raise UserError(f"temperature={self.sampling.temperature}: expected more than 0")
        if self.sampling and self.sampling.top_k is not None and self.sampling.top_k < 1:
            raise UserError(f"top_k={self.sampling.top_k}: expected at least 1")

    @property
    def width(self) -> int:
        """W: the hypotheses that grow side by side."""
        return self.n_best if self.sampling else self.beam_size


@dataclasses.dataclass
class _Row:
    """One line on its way through the model."""

    number: int  # of the line, from 0; a sample depends on it
    line: str
    inputs: list[int]  # EOS included
    prefix: list[int]
    outputs: list[Hypothesis] = dataclasses.field(default_factory=list)

    @property
    def length(self) -> int:
        """The sub-words, EOS included, that the output's limit is counted from (section 6.1)."""
        return max(len(self.inputs), len(self.prefix) + 1)


class Decoder:
    """A trained model, ready to translate.

    Args:
        model: Transformer.
        vocabularies: Vocabularies.
        problem: Problem; says how to decode unless told otherwise, and how text goes in and comes out.
        devices: TensorFlow's names of the devices to use; default: all GPUs, or the CPU. The first has `model` itself,
            as it is at each call; the others have copies of it as it is now.
        batch_tokens: bounds rows * W * (S + L) of a batch.
        xla: whether XLA compiles the search. Default: on GPUs only; on CPUs it is not faster.
        workers: batches decoded at the same time on each device; default: `calls_side_by_side()`.

    Example:
        decoder = Decoder(model, vocabularies, problem)
        for hypotheses in decoder.translate(["two hundred six"], n_best=2):
            print(hypotheses[0].text, hypotheses[0].score)

    """

    def __init__(
        self,
        model: Transformer,
        vocabularies: Vocabularies,
        problem: Problem,
        *,
        devices: Sequence[str] | None = None,
        batch_tokens: int | None = None,
        xla: bool | None = None,
        workers: int | None = None,
    ):
        gpus = [device.name for device in tf.config.list_logical_devices("GPU")]
        self.vocabularies, self.problem = vocabularies, problem
        self.devices = list(devices or gpus or ["CPU:0"])
        workers = workers or calls_side_by_side()
        default = _BATCH_TOKENS_GPU if gpus else max(BATCH_TOKENS // workers, _LEAST_BATCH_TOKENS)
        self.batch_tokens = batch_tokens or default
        self._xla = bool(gpus) if xla is None else xla
        models = [model, *(_copy(model, device) for device in self.devices[1:])]
        self._grammar = problem.grammar(vocabularies)
        programs = [_Program(*pair, self._grammar, self._xla) for pair in zip(models, self.devices)]
        self._programs = programs * workers  # one for each batch at a time

    def translate(self, lines: Iterable[str], **options) -> list[list[Hypothesis]]:
        """All of `stream`'s results at once."""
        return list(self.stream(lines, **options))

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
        progress: Callable[[int, int], object] = lambda lines, subwords: None,
    ) -> Iterator[list[Hypothesis]]:
        """Yields each line's hypotheses, best first, reading the lines a window at a time.

        Args:
            lines: texts without their line ends. One that is empty or all whitespace gets an empty output (its prefix,
                where it has one) with log probability 0.
            beam_size, alpha, extra_length: of the search; default: the problem's.
            n_best: how many hypotheses a line gets at most.
            prefixes: what each line's output must begin with; an empty one leaves it free.
            sampling: draw n_best outputs instead of searching.
            constrained: obey the grammar of outputs, where the problem has one; prefixes go without it.
            seed: of the samples; a line's follow from it and from the line's number.
            progress: called with the number of lines just done, and of the sub-words that were read of them, EOS included.

        """
        defaults = self.problem.decoding
        search = Search(
            defaults.beam_size if beam_size is None else beam_size,
            defaults.alpha if alpha is None else alpha,
            defaults.extra_length if extra_length is None else extra_length,
            n_best,
            sampling,
            constrained and self._grammar is not None,
        )
        if prefixes is not None and search.constrained:
            raise UserError(
                f"problem {self.problem.name} has a grammar of outputs, which may forbid a prefix; turn it off first"
            )
        rows = self._rows(lines, prefixes)
        while window := list(itertools.islice(rows, _WINDOW * len(self.devices))):
            empty = [row for row in window if not row.line.strip()]
            for row in empty:
                [text] = self.vocabularies.target.decode_lines([row.prefix])
                row.outputs = [
                    Hypothesis(text, 0.0, 0.0, self.problem.output_details(text, row.line))
                ]
            progress(len(empty), 0)
            for done in self._decode([row for row in window if row.line.strip()], search, seed):
                progress(len(done), sum(len(row.inputs) for row in done))
            yield from (row.outputs for row in window)

    def _rows(self, lines: Iterable[str], prefixes: Iterable[str] | None) -> Iterator[_Row]:
        source, target = self.vocabularies.source, self.vocabularies.target
        pairs = (
            ((line, "") for line in lines)
            if prefixes is None
            else itertools.zip_longest(lines, prefixes)
        )
        for number, (line, prefix) in enumerate(pairs):
            if line is None or prefix is None:
                ended = "lines" if line is None else "prefixes"
                raise UserError(f"only {number} {ended}; expected a prefix for each line")
            [inputs], [begin] = (
                source.encode_lines([self.problem.input_text(line)]),
                target.encode_lines([prefix]),
            )
            yield _Row(number, line, inputs, begin[:-1])  # a prefix does not end: no EOS

    def _decode(self, rows: list[_Row], search: Search, seed: int) -> Iterator[list[_Row]]:
        """Fills in the rows' outputs, a batch at a time on each device. Yields each finished batch."""
        batches = self._batches(rows, search)
        if len(self._programs) == 1:
            yield from (
                self._decode_batch(self._programs[0], *batch, search, seed) for batch in batches
            )
            return
        free = queue.SimpleQueue()
        for program in self._programs:
            free.put(program)

        def decode(batch):
            program = free.get()
            try:
                return self._decode_batch(program, *batch, search, seed)
            finally:
                free.put(program)

        pool = ThreadPoolExecutor(len(self._programs))
        try:
            for future in as_completed([pool.submit(decode, batch) for batch in batches]):
                yield future.result()
        finally:
            pool.shutdown(
                cancel_futures=True
            )  # after an error or an interrupt the other batches are for nobody

    def _batches(self, rows: list[_Row], search: Search) -> Iterator[tuple[list[_Row], int, int]]:
        """Cuts the rows, longest first, into (rows, B, S), so that each program gets its share. For XLA, which compiles each, from
        a short list of shapes.
        """
        rows = sorted(rows, key=lambda row: row.length, reverse=True)
        share = math.ceil(len(rows) / len(self._programs))
        if self._xla:
            share = 1 << (share - 1).bit_length()  # up, since the count is rounded down below
        while rows:
            source_length = _round_up(rows[0].length) if self._xla else rows[0].length
            count = min(max(self.batch_tokens // row_tokens(search, source_length), 1), share)
            if self._xla:
                count = 1 << (count.bit_length() - 1)  # the largest power of two that fits
            batch, rows = rows[:count], rows[count:]
            yield (
                batch,
                min(count, 1 << (len(batch) - 1).bit_length()) if self._xla else len(batch),
                source_length,
            )

    def _decode_batch(
        self,
        program: "_Program",
        rows: list[_Row],
        size: int,
        source_length: int,
        search: Search,
        seed: int,
    ) -> list[_Row]:
        max_length = source_length + search.extra_length
        # Rows that only fill the batch have a limit of 0: they are done before they start.
        inputs = np.full([size, source_length], PAD, np.int32)
        prefix = np.full([size, max_length], PAD, np.int32)
        limits = np.zeros([size], np.int32)
        for i, row in enumerate(rows):
            inputs[i, : len(row.inputs)] = row.inputs
            prefix[i, : len(row.prefix)] = row.prefix
            limits[i] = row.length + search.extra_length
        uniforms = (
            _uniforms(seed, rows, [size, search.width, max_length]) if search.sampling else None
        )
        ids, log_probs, scores = program(inputs, prefix, limits, uniforms, search)
        for row, row_ids, row_log_probs, row_scores in zip(rows, ids, log_probs, scores):
            texts = self.vocabularies.target.decode_lines(row_ids.tolist())
            row.outputs = [
                Hypothesis(
                    # One output is one line, so line ends that the model spells out become spaces.
                    self.problem.output_text(text, row.line).replace("\r", " ").replace("\n", " "),
                    float(score),
                    float(log_prob),
                    self.problem.output_details(text, row.line),
                )
                for text, score, log_prob in zip(texts, row_scores, row_log_probs)
                if np.isfinite(log_prob)  # -inf: fewer than n_best exist
            ]
        return rows


class _Program:
    """The model on one device, with a function for each way to search: one graph a shape for XLA, else one for all."""

    def __init__(self, model: Transformer, device: str, grammar: Brackets | None, xla: bool):
        self._model, self._device, self._grammar, self._xla = model, device, grammar, xla
        self._functions: dict[Search, tf.types.experimental.PolymorphicFunction] = {}

    def __call__(self, inputs, prefix, limits, uniforms, search: Search) -> list[np.ndarray]:
        if search not in self._functions:
            run = functools.partial(run_search, self._model, self._grammar, search, self._xla)
            function = tf.function(
                run,
                None if self._xla else _any_shape(search),
                autograph=False,
                jit_compile=self._xla,
            )
            self._functions.setdefault(
                search, function
            )  # of several threads' the first, so that one is traced
        with tf.device(self._device):
            tensors = [
                tf.constant(array)
                for array in (inputs, prefix, limits, uniforms)
                if array is not None
            ]
            return [tensor.numpy() for tensor in self._functions[search](*tensors)]


def run_search(
    model: Transformer,
    grammar: Brackets | None,
    search: Search,
    xla: bool,
    inputs,
    prefix,
    limits,
    uniforms=None,
) -> Hypotheses:
    """The search as operations of a graph; with `xla` all shapes are static.

    Args:
        inputs: int32 [B, S].
        prefix: int32 [B, L], all PAD where outputs are free; its width bounds them.
        limits: int32 [B].
        uniforms: float32 [B, W, L] for sampling, else None.

    """
    in_stages = not xla and not search.sampling
    max_length = size(prefix, 1)
    memory, cache = model.start(inputs, search.width, 0 if in_stages else max_length)
    arguments = dict(memory=memory, cache=cache, limits=limits, prefix=prefix, alpha=search.alpha)
    if search.constrained:
        arguments["allow"], arguments["grammar"] = grammar.start(inputs, limits, search.width)
    if search.sampling:
        return sample(
            model.step,
            uniforms=uniforms,
            temperature=search.sampling.temperature,
            top_k=search.sampling.top_k,
            **arguments,
        )
    return beam_search(
        model.step,
        beam_size=search.beam_size,
        max_length=max_length,
        n_best=search.n_best,
        reorder=model.reorder_cache,
        grow=(lambda cache: model.grow_cache(cache, STAGE)) if in_stages else None,
        **arguments,
    )


def row_tokens(search: Search, source_length):
    """W * (S + L) of one row, which its caches grow with; numbers or tensors."""
    return search.width * (2 * source_length + search.extra_length)


def _any_shape(search: Search) -> list:
    """The arguments' specifications where B, S and L differ from call to call."""
    inputs, prefix, limits = (
        tf.TensorSpec(shape, tf.int32) for shape in ([None, None], [None, None], [None])
    )
    uniforms = tf.TensorSpec([None, search.width, None], tf.float32)
    return [inputs, prefix, limits, *([uniforms] if search.sampling else [])]


def _copy(model: Transformer, device: str) -> Transformer:
    with tf.device(device):
        copy = type(model).from_config(model.get_config())
        copy.set_weights(model.get_weights())
    return copy


def _round_up(length: int) -> int:
    """The next of 16, 24, 32, 48, 64, 96, ...: few shapes to compile, a quarter of padding at most in the mean."""
    power = 1 << max(length - 1, 15).bit_length()
    return power * 3 // 4 if length <= power * 3 // 4 and power > 16 else power


def _uniforms(seed: int, rows: list[_Row], shape: Sequence[int]) -> np.ndarray:
    """float32 [B, W, L]: a sample's follow from the seed, its line's number and its own, not from the batch."""
    uniforms = np.zeros(shape, np.float32)
    for row, samples in zip(rows, uniforms):
        for number, sample_ in enumerate(samples):
            sample_[:] = np.random.default_rng((seed, row.number, number)).random(
                len(sample_), np.float32
            )
    return uniforms
