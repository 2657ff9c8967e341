"""The screen that says what a training will do, before it starts or instead of it (--dry_run)."""

import keras
import numpy as np

from t2t_lite.data.buckets import Bucket, bucket_numbers
from t2t_lite.data.packing import filled
from t2t_lite.data.tokenizer import Vocabularies, load_vocabulary
from t2t_lite.devices import choose_xla, make_strategy
from t2t_lite.errors import UserError
from t2t_lite.models.size import embedding_symbols
from t2t_lite.models.transformer import Transformer
from t2t_lite.run import Run
from t2t_lite.training.cost import sustained_rate, update_operations
from t2t_lite.training.memory import TrainingMemory, used_memory
from t2t_lite.training.micro_batches import choose_by_estimate, fewest, micro_batch
from t2t_lite.training.progress import duration

_TYPICAL = 64  # sub-words a side of a sentence, long rather than short
_PACKED = 10_000  # pairs that are packed to see how little padding there is


def start(trainer, strategy, precision: str, xla: bool, why: str) -> str:
    """The screen at the start of a training."""
    parameters = f"{trainer.model.count_params():,}"
    lines = _common(trainer.run, parameters, strategy, precision, xla, why)
    packing = trainer.hparams.packing
    fill = _real_tokens(trainer.lengths, trainer.buckets, packing)
    lines.append(
        f"batch       {trainer.hparams.batch_tokens:,} tokens a side at most, padding included; "
        f"{fill:.1%} of the positions hold a symbol"
    )
    if (parts := trainer.step.micro_batches) > 1:
        lines.append(f"            in {parts} micro-batches on each device")
    lines.append(("rows        " if packing else "buckets     ") + _table(trainer.buckets, packing))
    return "\n".join(lines + _left_out(trainer))


def _left_out(trainer) -> list[str]:
    """The line that says how many pairs are too long, if any are: of a sample, if it is large."""
    too_long = (trainer.lengths > trainer.hparams.max_length).any(axis=1).mean()
    if not too_long:
        return []
    total = trainer.epoch_pairs
    about = "about " * (len(trainer.lengths) < total)
    warning = "warning: " if too_long >= 0.01 else ""
    return [
        f"left out    {warning}{about}{round(too_long * total):,} of {total:,} pairs "
        f"({too_long:.2%}), longer than max_length={trainer.hparams.max_length}"
    ]


def dry_run(run: Run, args) -> str:
    """What would run: parameters, shapes, memory, steps. Downloads, trains and writes nothing.

    Args:
        args: the flags of t2t-trainer, of devices.
    """
    h, shared = run.hparams, run.problem.shared_vocabulary
    strategy, (xla, why) = make_strategy(args.logical_devices), choose_xla(args.xla)
    source_size, target_size = _vocabulary_sizes(run)
    parameters, table = _parameters(h, source_size, target_size, shared)
    replicas = strategy.num_replicas_in_sync
    # Of a typical length, or of the longest rows; those of the corpus are not known yet.
    length = min(h.max_length, h.batch_tokens) if h.packing else _TYPICAL
    bucket = Bucket(h.batch_tokens // length, length, length)
    symbols = embedding_symbols(h, source_size, target_size, shared)
    memory = TrainingMemory(h, symbols, args.precision, len(strategy.extended.worker_devices))
    if args.micro_batch_tokens:
        micro_batches = fewest([bucket], replicas, args.micro_batch_tokens)
    else:
        micro_batches = choose_by_estimate(memory, [bucket], replicas)
    part = micro_batch(bucket, replicas, micro_batches)
    sizes = (
        f"{source_size:,} sub-words shared by both sides"
        if shared
        else f"{source_size:,} and {target_size:,} sub-words"
    )
    lines = _common(run, f"{parameters:,} with {sizes}", strategy, args.precision, xla, why)
    lines += [f"            {name:34} {shape}" for name, shape in table]
    lines.append(
        f"batch       {h.batch_tokens:,} tokens a side at most in one update = "
        f"{replicas} replicas x {micro_batches} micro-batches x {part.rows * length:,}"
    )
    shapes = (
        "rows        of several pairs, at most 2 shapes"
        if h.packing
        else f"buckets     at most {h.num_buckets} shapes"
    )
    lines.append(f"{shapes} of up to {h.max_length} sub-words, fitted to the corpus")
    lines.append("memory      " + _memory(memory, part, micro_batches))
    lines.append("cost        " + _cost(h, target_size, bucket))
    lines.append(f"output_dir  {run.path} (nothing was written)")
    return "\n".join(lines)


def _memory(memory: TrainingMemory, part: Bucket, micro_batches: int) -> str:
    """What the training takes, in all and of what kind."""
    used = used_memory()
    parts = {
        "TensorFlow": used,
        "weights and Adam": memory.state,
        "a checkpoint while it is written": memory.checkpoint,
        "gradients and activations of one micro-batch": memory.update(part, micro_batches),
    }
    told = ", ".join(f"{name} {size / 2**30:.1f}" for name, size in parts.items())
    return f"about {(used + memory.total([part], micro_batches)) / 2**30:.1f} GiB: {told}"


def _cost(h, target_size: int, bucket: Bucket) -> str:
    """Table 2's estimate for all steps; the time is that of the matrix products alone."""
    shape = bucket.rows, bucket.source_length, bucket.target_length
    operations, rate = h.train_steps * update_operations(h, target_size, *shape), sustained_rate()
    return (
        f"about {operations:.2g} floating-point operations; on one device at the "
        f"{rate / 1e9:,.0f} GFLOP/s of large products here that takes {duration(operations / rate)}"
    )


def _vocabulary_sizes(run: Run) -> tuple[int, int]:
    """Sub-words of source and target; a guess where the target is whole words."""
    if known := run.path if run.exists else run.init_from:
        vocabularies = Vocabularies.load(known)
        return vocabularies.source.size, vocabularies.target.size
    source = run.problem.subwords()
    if run.problem.vocab:
        source = load_vocabulary(run.problem.vocab).size
    if run.problem.target_subword_model == "word":
        return source, 100
    return source, source if run.problem.shared_vocabulary else run.problem.subwords()


def _common(run: Run, parameters: str, strategy, precision: str, xla: bool, why: str) -> list[str]:
    """The lines that both screens begin with."""
    h = run.hparams
    devices = ", ".join(strategy.extended.worker_devices)
    return [
        f"problem     {run.problem.name}: {type(run.problem).describe(run.problem.name)}",
        f"hparams     {run.hparams_set}: {h.num_encoder_layers}+{h.num_decoder_layers} layers, "
        f"d_model {h.d_model}, d_ff {h.d_ff}, {h.num_heads} heads, dropout {h.dropout}",
        f"parameters  {parameters}",
        f"devices     {strategy.num_replicas_in_sync}: {devices}",
        f"precision   {precision}; XLA {'on' if xla else 'off'} ({why})",
        f"steps       {h.train_steps:,}, warmup {h.warmup_steps:,}, schedule {h.schedule}, "
        f"seed {run.seed}; checkpoint every {h.checkpoint_minutes:g} minutes or "
        f"{h.checkpoint_steps:,} steps, the last {h.average_checkpoints} averaged",
    ]


def _parameters(
    h, source_size: int, target_size: int, shared: bool
) -> tuple[int, list[tuple[str, str]]]:
    """The number of parameters, and each distinct weight's shape, without making the weights."""
    with keras.StatelessScope(initialize_variables=False):
        words = [False] * source_size, [False] * target_size  # any; they are no weights
        model = Transformer(
            h, source_size, target_size, shared=shared, words=words, name="transformer"
        )
    table, seen = [], set()
    for variable in model.variables:
        path = variable.path.partition("/")[2]
        if "/layer_" in path and "/layer_0/" not in path:
            continue
        label = path.replace("layer_0", "layer_*")
        if label not in seen and len(variable.shape) > 1:
            seen.add(label)
            table.append((label, " x ".join(f"{n:,}" for n in variable.shape)))
    return sum(int(np.prod(variable.shape)) for variable in model.variables), table


def _table(buckets: list[Bucket], packing: bool) -> str:
    return "  ".join(f"{b.source_length}/{b.target_length}: {b.rows}" for b in buckets) + (
        f"   (source/target length: {'rows of several' if packing else 'sentences'})"
    )


def _real_tokens(lengths: np.ndarray, buckets: list[Bucket], packing: bool) -> float:
    """The share of both sides' positions that hold a symbol, not padding, over sampled pairs."""
    places = bucket_numbers(buckets, lengths)
    fits = places < len(buckets)
    if not fits.any():
        raise UserError(
            f"no training pair is short enough for max_length; the longest bucket is {buckets[-1]}"
        )
    if packing:
        return filled(lengths[fits][:_PACKED], buckets)
    widths = np.array([b.source_length + b.target_length for b in buckets])
    return float(lengths[fits].sum() / widths[places[fits]].sum())
