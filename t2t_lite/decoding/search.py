"""Search: how to decode, and that search over a Transformer as operations of a graph."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Self

from t2t_lite.decoding.beam_search import STAGE, beam_search
from t2t_lite.decoding.constraint import Brackets
from t2t_lite.decoding.hypotheses import Hypotheses, size
from t2t_lite.decoding.sampling import sample
from t2t_lite.errors import UserError
from t2t_lite.models.ensemble import Ensemble
from t2t_lite.models.transformer import Transformer
from t2t_lite.problem import Decoding


@dataclasses.dataclass(frozen=True)
class Sampling:
    """Draws outputs instead of searching for the best."""

    temperature: float = 1.0  # divides the logits
    top_k: int | None = None  # only the k most probable sub-words; None: all

    def __post_init__(self):
        if not self.temperature > 0:
            raise UserError(f"temperature={self.temperature}: expected more than 0")
        if self.top_k is not None and self.top_k < 1:
            raise UserError(f"top_k={self.top_k}: expected at least 1")


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

    @classmethod
    def of(
        cls,
        defaults: Decoding,
        *,
        beam_size: int | None = None,
        alpha: float | None = None,
        extra_length: int | None = None,
        n_best: int | None = 1,
        sampling: Sampling | None = None,
        constrained: bool = False,
    ) -> Self:
        """A task's own way to decode, but for what is given; n_best None: all of the beam.

        Raises UserError for bad values.
        """
        beam_size = defaults.beam_size if beam_size is None else beam_size
        return cls(
            beam_size,
            defaults.alpha if alpha is None else alpha,
            defaults.extra_length if extra_length is None else extra_length,
            beam_size if n_best is None else n_best,
            sampling,
            constrained,
        )

    @property
    def width(self) -> int:
        """W: the hypotheses that grow side by side."""
        return self.n_best if self.sampling else self.beam_size

    def row_tokens(self, source_length):
        """W * (S + L) of one row, which its caches grow with; numbers or tensors."""
        return self.width * (2 * source_length + self.extra_length)


def run_search(
    model: Transformer | Ensemble,
    forbidden: Sequence[int],
    grammar: Brackets | None,
    search: Search,
    xla: bool,
    weights,
    inputs,
    prefix,
    limits,
    uniforms=None,
) -> Hypotheses:
    """The search as operations of a graph.

    Args:
        model: Transformer, or Ensemble.
        forbidden: ids never generated, those of the target's vocabulary.
        grammar: that outputs obey, where `search` is constrained.
        search: Search.
        xla: whether all shapes are static.
        weights: of the model's `search_weights`.
        inputs: int32 [B, S].
        prefix: int32 [B, L], all PAD where outputs are free; its width bounds them.
        limits: int32 [B].
        uniforms: float32 [B, W, L] for sampling, else None.
    """
    in_stages = not xla and not search.sampling
    max_length = size(prefix, 1)
    memory, cache = model.start(weights, inputs, search.width, 0 if in_stages else max_length)
    arguments = dict(
        memory=memory, cache=cache, limits=limits, prefix=prefix, alpha=search.alpha,
        forbidden=forbidden,
    )  # fmt: skip
    if search.constrained:
        arguments["allow"], arguments["grammar"] = grammar.start(inputs, limits, search.width)
    step = functools.partial(model.step, weights)
    if search.sampling:
        return sample(
            step,
            uniforms=uniforms,
            temperature=search.sampling.temperature,
            top_k=search.sampling.top_k,
            **arguments,
        )
    return beam_search(
        step,
        beam_size=search.beam_size,
        max_length=max_length,
        n_best=search.n_best,
        reorder=model.reorder_cache,
        grow=(lambda cache: model.grow_cache(cache, STAGE)) if in_stages else None,
        **arguments,
    )
