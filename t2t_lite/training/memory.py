"""How much memory there is for a training, how much it needs, and how much it has taken."""

import dataclasses
import os
import resource
from collections.abc import Iterable, Sequence
from pathlib import Path

from t2t_lite.config import HParams
from t2t_lite.data.buckets import Bucket
from t2t_lite.data.tokenizer import Vocabularies
from t2t_lite.models.size import embedding_symbols, parameters, scores
from t2t_lite.training.loss import CHUNK_BYTES

CGROUPS, PROCESS_CGROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
_GRAPH = 150 << 20  # bytes of the traced and optimised graph of an update
# Vectors of d_model that the encoder's layer type keeps of each symbol, with its normalisation.
_KEPT = {"self_attention": 9, "restricted_self_attention": 15, "recurrent": 20, "convolution": 6}
_SHORTEST_SEARCH = 52  # source and target length of a search, with the problems' extra_length of 50


def available_memory() -> int:
    """Bytes that this process may have besides what it has: of the machine and of its cgroups."""
    free = _fields(Path("/proc/meminfo"))["MemAvailable"] * 1024
    return min([free, *_cgroup_rooms()])


def used_memory() -> int:
    """Bytes of memory that this process has."""
    return _fields(Path("/proc/self/status"))["VmRSS"] * 1024


def peak_memory() -> int:
    """The most bytes of memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@dataclasses.dataclass(frozen=True)
class TrainingMemory:
    """About how many bytes a training takes on CPUs besides TensorFlow itself: an estimate.

    `scripts/bench_training_memory.py` compares it with what updates take. Evaluations stay below
    the part of updates, and the averaging at the end below that of the checkpoint.

    Attributes:
        hparams: HParams.
        symbols: V of each matrix of embeddings or softmax, of `embedding_symbols`.
        precision: a key of POLICIES.
        replicas: those on this machine, of which each has its own weights.
    """

    hparams: HParams
    symbols: Sequence[int]
    precision: str = "float32"
    replicas: int = 1

    @classmethod
    def of(cls, hparams: HParams, vocabularies: Vocabularies, precision: str, strategy):
        """Of a model with these vocabularies under a tf.distribute.Strategy."""
        sizes = vocabularies.source.size, vocabularies.target.size
        symbols = embedding_symbols(hparams, *sizes, vocabularies.shared)
        return cls(hparams, symbols, precision, len(strategy.extended.worker_devices))

    def total(self, batches: Iterable[Bucket], micro_batches: int = 1) -> int:
        """The most that it takes at any time.

        Args:
            batches: the shapes of micro-batches.
            micro_batches: M.
        """
        updates = [self.update(batch, micro_batches) for batch in batches]
        return self.state + self.checkpoint + max(updates)

    @property
    def state(self) -> int:
        """Weights and Adam's slots."""
        return self.replicas * 3 * 4 * self._weights

    @property
    def checkpoint(self) -> int:
        """The copy of weights and slots that is written while training goes on."""
        return 3 * 4 * self._weights

    def update(self, batch: Bucket, micro_batches: int = 1) -> int:
        """What an update takes beside them.

        It is largest either where the gradients begin, with all that they need of the forward pass,
        or at the end, with the gradients and their mean; the embeddings' are summed from several.
        With micro-batches there are the sum so far and its successor, too, and a second graph.
        """
        gradients = 4 * self._weights
        embeddings = 4 * self.symbols[-1] * self.hparams.d_model
        begin = self._kept(batch) + 2 * embeddings + gradients  # the sum over chunks of logits
        end = 2 * gradients + 4 * embeddings
        sums = _GRAPH + 2 * gradients if micro_batches > 1 else 0
        # bfloat16's and float16's copies of the weights.
        copies = 0 if self.precision == "float32" else 2 * self._weights
        return self.replicas * (_GRAPH + max(begin, end) + sums + copies)

    def decoded_token(self) -> int:
        """What a search takes for each of rows * beams * (source + target length)."""
        h = self.hparams
        cache = 4 * h.num_decoder_layers * h.num_heads * (h.d_k + h.d_v)
        logits = 3 * 4 * self.symbols[-1] / _SHORTEST_SEARCH
        return round(2 * cache + logits)  # the cache is copied where it grows

    @property
    def _weights(self) -> int:
        return parameters(self.hparams, self.symbols)

    def _kept(self, batch: Bucket) -> int:
        """What the forward pass of a micro-batch keeps for the gradients.

        Of each symbol: attention 9 vectors of d_model (queries, keys, values, heads, the mask of
        dropout, three of the normalisation, and its output), the feed-forward network 5 and one of
        d_ff, each attention a row of weights. Of the encoder's other layer types the vectors were
        measured. Of the logits three parts exist at a time.
        """
        h, full = self.hparams, self.precision == "float32"
        source, target = batch.source_length, batch.target_length
        # Normalisation, weights of attention and logits are float32 under any precision.
        width, weight = (4, 4) if full else (3, 4 + 2)
        vectors = _KEPT[h.encoder_layer] + 5
        encoder = source * width * (vectors * h.d_model + h.d_ff)
        encoder += weight * h.num_heads * scores(h, source)
        decoder = target * (
            width * (21 * h.d_model + h.d_ff) + weight * h.num_heads * (target + source)
        )
        memory = source * width * 2 * h.d_model  # the keys and values of the cross-attention
        layers = h.num_encoder_layers * encoder + h.num_decoder_layers * (decoder + memory)
        logits = 3 * min(CHUNK_BYTES, 4 * batch.rows * target * self.symbols[-1])
        return batch.rows * layers + logits


def _fields(file: Path) -> dict[str, int]:
    """The numbers of a file of `NAME: NUMBER ...` or `NAME NUMBER` lines."""
    rows = (line.replace(":", " ").split() for line in file.read_text().splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdecimal()}


def _cgroup_rooms() -> list[int]:
    """What is left of each limit that a cgroup, or one that it is in, sets to this process."""
    rooms = []
    for line in PROCESS_CGROUPS.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):  # version 1
            root, names = CGROUPS / "memory", ("limit_in_bytes", "usage_in_bytes")
        elif not controllers:  # version 2
            root, names = CGROUPS, ("max", "current")
        else:
            continue
        folder = Path(os.path.normpath(f"{root}/{path}"))
        folder = folder if root in folder.parents else root
        # In a container the path may be that outside of it, and the limit stands at the root.
        for place in folder, *folder.parents:
            if root in (place, *place.parents):
                rooms += _room(*(place / f"memory.{name}" for name in names))
    return rooms


def _room(limit: Path, usage: Path) -> list[int]:
    try:
        # What it holds of files is given up when memory is needed.
        files = _fields(limit.parent / "memory.stat").get("inactive_file", 0)
        return [max(0, int(limit.read_text()) - int(usage.read_text()) + files)]
    except (OSError, ValueError):  # no such cgroup here; "max": no limit
        return []
