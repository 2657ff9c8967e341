"""What a training will do, said on one screen before it starts, and by --dry_run without starting it."""

import numpy as np

from t2t_lite.data.buckets import Bucket
from t2t_lite.errors import UserError
from t2t_lite.run import Run


def start(trainer, strategy, precision: str, xla: bool, why: str) -> str:
    """The screen at the start of a training."""
    replicas = strategy.num_replicas_in_sync
    lines = _common(trainer.run, strategy, precision, xla, why)
    lines.insert(2, f"parameters  {trainer.model.count_params():,}")
    fill = _real_tokens(trainer.lengths, trainer.buckets)
    lines.append(
        f"batch       {trainer.hparams.batch_tokens:,} tokens a side at most, padding included; "
        f"{fill:.1%} of the positions hold a symbol"
    )
    lines.append("buckets     " + _table(trainer.buckets, replicas))
    return "\n".join(lines)


def dry_run(run: Run, strategy, precision: str, xla: bool, why: str, micro_batches: int) -> str:
    """What would run: parameters, shapes, an estimate of memory, steps. Downloads, trains and writes nothing."""
    h, (source_size, target_size), shared = (
        run.hparams,
        _vocabulary_sizes(run),
        run.problem.shared_vocabulary,
    )
    parameters, table = _parameters(h, source_size, target_size, shared)
    replicas = strategy.num_replicas_in_sync
    tokens = h.batch_tokens // (replicas * micro_batches)
    lines = _common(run, strategy, precision, xla, why)
    sizes = (
        f"{source_size:,} sub-words shared by both sides"
        if shared
        else f"{source_size:,} and {target_size:,} sub-words"
    )
    lines.insert(2, f"parameters  {parameters:,} with {sizes}")
    lines += [f"            {name:34} {shape}" for name, shape in table]
    lines.append(
        f"batch       {h.batch_tokens:,} tokens a side at most in one update = {replicas} replicas x {micro_batches} "
        f"micro-batches x {tokens:,}"
    )
    lines.append(
        f"buckets     at most {h.num_buckets} shapes of up to {h.max_length} sub-words, fitted to the corpus"
    )
    weights, activations = _memory(h, parameters, tokens, target_size, precision)
    lines.append(
        f"memory      about {(weights + activations) / 2**30:.1f} GiB a device: weights, gradients and Adam "
        f"{weights / 2**30:.1f}, activations of one micro-batch {activations / 2**30:.1f}"
    )
    lines.append(f"output_dir  {run.path} (nothing was written)")
    return "\n".join(lines)


def _vocabulary_sizes(run: Run) -> tuple[int, int]:
    """Of the source's and the target's; symbols that stay whole are some hundred, how many is seen in training only."""
    source = run.problem.subwords()
    if run.problem.vocab:
        from t2t_lite.data.tokenizer import Vocabulary

        source = Vocabulary.load(run.problem.vocab).size
    if run.problem.target_subword_model == "word":
        return source, 100
    return source, source if run.problem.shared_vocabulary else run.problem.subwords()


def _common(run: Run, strategy, precision: str, xla: bool, why: str) -> list[str]:
    h = run.hparams
    devices = ", ".join(strategy.extended.worker_devices)
    return [
        f"problem     {run.problem.name}: {type(run.problem).describe(run.problem.name)}",
        f"hparams     {run.hparams_set}: {h.num_encoder_layers}+{h.num_decoder_layers} layers, d_model {h.d_model}, "
        f"d_ff {h.d_ff}, {h.num_heads} heads, dropout {h.dropout}",
        f"devices     {strategy.num_replicas_in_sync}: {devices}",
        f"precision   {precision}; XLA {'on' if xla else 'off'} ({why})",
        f"steps       {h.train_steps:,}, warmup {h.warmup_steps:,}, schedule {h.schedule}, seed {run.seed}; "
        f"checkpoint every {h.checkpoint_minutes:g} minutes or {h.checkpoint_steps:,} steps, the last "
        f"{h.average_checkpoints} averaged",
    ]


def _parameters(
    h, source_size: int, target_size: int, shared: bool
) -> tuple[int, list[tuple[str, str]]]:
    """The number of parameters, and each distinct weight's shape, from a model whose variables are never filled."""
    import keras

    from t2t_lite.models.transformer import Transformer

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


def _memory(h, parameters: int, tokens: int, vocabulary: int, precision: str) -> tuple[int, int]:
    """Bytes of (weights, gradients, two Adam slots), and of the activations kept for one micro-batch's gradients.

    Counted per token: each sub-layer keeps about 8 vectors of d_model or 2 of d_ff, attention its
    weights over a typical 64 positions, the softmax 3 rows of the vocabulary in float32.
    """
    width = 4 if precision == "float32" else 2
    encoder = 8 * h.d_model + 2 * h.d_ff + 8 * h.d_model + 3 * h.num_heads * 64
    decoder = encoder + 8 * h.d_model + 3 * h.num_heads * 64
    layers = h.num_encoder_layers * encoder + h.num_decoder_layers * decoder
    return parameters * 16, tokens * (layers * width + 3 * vocabulary * 4)


def _table(buckets: list[Bucket], replicas: int) -> str:
    return "  ".join(
        f"{b.source_length}/{b.target_length}: {b.rows * replicas}" for b in buckets
    ) + ("   (source/target length: sentences)")


def _real_tokens(lengths: np.ndarray, buckets: list[Bucket]) -> float:
    """The share of the padded positions of both sides that hold a symbol, over the sampled pairs."""
    ends = [
        np.array([getattr(b, side) for b in buckets]) for side in ("source_length", "target_length")
    ]
    fits = (lengths[:, 0] <= ends[0][-1]) & (lengths[:, 1] <= ends[1][-1])
    lengths = lengths[fits]
    if not len(lengths):
        raise UserError(
            f"no training pair is short enough for max_length; the longest bucket is {buckets[-1]}"
        )
    place = np.maximum(*(np.searchsorted(ends[side], lengths[:, side]) for side in (0, 1)))
    return float(lengths.sum() / (ends[0][place] + ends[1][place]).sum())
