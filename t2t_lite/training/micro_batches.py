"""How many parts an update is cut into, so that the memory of a device holds each."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from t2t_lite.data.buckets import Bucket
from t2t_lite.decoding.batches import BATCH_TOKENS
from t2t_lite.errors import UserError
from t2t_lite.evaluation.perplexity import SCORE_TOKENS
from t2t_lite.training.memory import TrainingMemory, available_memory
from t2t_lite.training.step import TrainStep

_USABLE = 0.9  # of the memory that there is, since what is needed is an estimate


def choose(
    step: TrainStep,
    buckets: Sequence[Bucket],
    replicas: int,
    tokens: int | None,
    kept: int | None,
    fitting: int | None,
    log: Callable[[str], object],
) -> int:
    """M, the number of micro-batches: as the user says, else as so far, else what fits.

    Args:
        step: TrainStep, to try it out.
        buckets: the shapes of whole batches.
        replicas: R, on all machines.
        tokens: a side of a micro-batch at most, if given.
        kept: M of the training so far, if there is one of as many replicas.
        fitting: M by `choose_by_estimate`, if made.
        log: is told.
    """
    if tokens:
        return fewest(buckets, replicas, tokens)
    if kept and fitting and kept < fitting:
        log(
            f"warning: {kept} micro-batches, as so far, may not fit into memory; expected {fitting}"
        )
    return kept or fitting or choose_by_trial(step, buckets, replicas, log)


def fewest(buckets: Sequence[Bucket], replicas: int, tokens: int) -> int:
    """The fewest micro-batches M of at most `tokens` a side each, or of one row."""
    return max(
        -(-b.rows // (replicas * max(1, tokens // max(b.source_length, b.target_length))))
        for b in buckets
    )


def micro_batch(bucket: Bucket, replicas: int, micro_batches: int) -> Bucket:
    """The shape of a micro-batch of this bucket."""
    rows = -(-bucket.rows // (replicas * micro_batches))
    return Bucket(rows, bucket.source_length, bucket.target_length)


def choose_by_estimate(memory: TrainingMemory, buckets: Sequence[Bucket], replicas: int) -> int:
    """The fewest M, each twice the one before, with which a training fits into the machine.

    Before there are weights. Raises UserError where not even a row of each bucket fits.

    Args:
        memory: TrainingMemory, of the replicas on this machine.
        buckets: the shapes of whole batches.
        replicas: R, on all machines.
    """
    available, micro_batches = available_memory(), 1
    while True:
        parts = [micro_batch(bucket, replicas, micro_batches) for bucket in buckets]
        needed = memory.total(parts, micro_batches)
        if needed <= _USABLE * available:
            return micro_batches
        if all(part.rows == 1 for part in parts):
            raise UserError(
                f"training takes about {needed / 2**30:.1f} GiB besides TensorFlow, and there are "
                f"{available / 2**30:.1f} GiB; expected more memory, a smaller set, or a "
                f"max_length of less than {memory.hparams.max_length}"
            )
        micro_batches *= 2


def evaluation_bounds(
    memory: TrainingMemory,
    buckets: Sequence[Bucket],
    replicas: int,
    micro_batches: int,
    workers: int,
) -> dict[str, int]:
    """The options of a Translator with which an evaluation takes no more than an update.

    Args:
        replicas: R, on all machines.
        micro_batches: M.
        workers: batches that are decoded at the same time.
    """
    parts = [micro_batch(bucket, replicas, micro_batches) for bucket in buckets]
    room = max(memory.update(part, micro_batches) for part in parts)
    decoded = min(BATCH_TOKENS, room // memory.decoded_token())
    scored = max(part.rows * part.target_length for part in parts)
    return {"batch_tokens": max(1, decoded // workers), "score_tokens": min(SCORE_TOKENS, scored)}


def choose_by_trial(
    step: TrainStep, buckets: Sequence[Bucket], replicas: int, log: Callable[[str], object]
) -> int:
    """The fewest M, each twice the one before, with which the largest bucket goes through.

    Leaves it in `step`. Raises UserError where not even a row does.
    """
    largest = max(buckets, key=lambda b: (b.source_length + b.target_length, b.rows))
    lengths = largest.source_length, largest.target_length
    sides = [np.ones([largest.rows, length], np.int32) for length in lengths]
    while True:
        try:
            step.try_out(*sides)
            return step.micro_batches
        except tf.errors.ResourceExhaustedError:
            if micro_batch(largest, replicas, step.micro_batches).rows == 1:
                raise UserError(
                    f"the device has no memory for one pair of {lengths[0]}/{lengths[1]} sub-words;"
                    " expected a smaller set, or a smaller max_length"
                ) from None
        step.micro_batches *= 2
        log(f"out of memory; trying {step.micro_batches} micro-batches")
