"""What a training has cost: its operations, and what the paper's Table 2 estimates of them."""

import dataclasses
import time

import numpy as np
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.models.size import multiply_adds

# Sustained float32 FLOP/s of the paper's GPUs (footnote 5).
SUSTAINED = {"K80": 2.8e12, "K40": 3.7e12, "M40": 6.0e12, "P100": 9.5e12}
_PRODUCTS, _WIDTH = 4, 1024  # independent matrix products, so that each core has one


@dataclasses.dataclass
class Cost:
    """What the updates took that led to the weights of now, over all starts of a training.

    Evaluations, and updates that were lost and made again, are not in it.

    Attributes:
        hparams: HParams.
        target_symbols: V of the softmax.
        steps: updates that are counted; fewer than all where a run was begun by an older version.
        seconds: that they took.
        operations: floating-point operations of their matrix products, padding included.
    """

    hparams: HParams
    target_symbols: int
    steps: int = 0
    seconds: float = 0.0
    operations: int = 0

    def add(self, inputs: np.ndarray, targets: np.ndarray, seconds: float) -> None:
        """Counts an update on a batch, ids [B, S] and [B, T]."""
        shape = len(inputs), inputs.shape[1], targets.shape[1]
        self.steps += 1
        self.seconds += seconds
        self.operations += update_operations(self.hparams, self.target_symbols, *shape)

    def to_json(self) -> dict:
        """What a checkpoint keeps."""
        names = ("steps", "seconds", "operations")
        return {name: getattr(self, name) for name in names}

    def figures(self, devices: int, rate: float) -> dict:
        """What log.jsonl says at the end: the counts, and the paper's estimate.

        Args:
            devices: how many trained.
            rate: the sustained float32 FLOP/s of each.
        """
        return self.to_json() | {
            "operations_per_s": self.operations / self.seconds,
            "devices": devices,
            "device_operations_per_s": rate,
            "papers_estimate": papers_estimate(self.seconds, devices, rate),
        }


def update_operations(h: HParams, target_symbols: int, rows: int, source: int, target: int) -> int:
    """Floating-point operations of an update's matrix products, forward and for the gradients.

    Args:
        h: HParams.
        target_symbols: V of the softmax.
        rows: sentence pairs, those that only pad included.
        source: sub-words of an input, padding included.
        target: those of an output.
    """
    return 2 * 3 * rows * multiply_adds(h, target_symbols, source, target)


def papers_estimate(seconds: float, devices: int, rate: float) -> float:
    """Table 2's training cost in floating-point operations (section 6.1).

    Args:
        seconds: the training time.
        devices: how many trained.
        rate: the sustained float32 FLOP/s of each.
    """
    return seconds * devices * rate


def sustained_rate() -> float:
    """float32 FLOP/s of a GPU, or of all cores: the paper's figure, or that of large products."""
    if gpus := tf.config.list_physical_devices("GPU"):
        name = tf.config.experimental.get_device_details(gpus[0]).get("device_name", "")
        for model, rate in SUSTAINED.items():
            if model in name:
                return rate
    width = _WIDTH * (8 if gpus else 1)
    matrices = [tf.random.normal([width, width]) for _ in range(_PRODUCTS)]
    run = tf.function(lambda *factors: [factor @ factor for factor in factors], autograph=False)
    seconds = []
    for _ in range(4):  # the first traces
        start = time.perf_counter()
        tf.nest.map_structure(lambda product: product[0, 0].numpy(), run(*matrices))
        seconds.append(time.perf_counter() - start)
    return _PRODUCTS * 2 * width**3 / min(seconds)
