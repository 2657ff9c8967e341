"""How much memory there is for a training, how much it needs, and how much it has taken."""

import os
import resource
from pathlib import Path

from t2t_lite.config import HParams
from t2t_lite.data.buckets import Bucket

CGROUPS, PROCESS_CGROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


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


def update_memory(h: HParams, weights: int, vocabulary: int, precision: str, batch: Bucket) -> int:
    """About how many bytes an update takes besides weights and Adam's slots: an estimate.

    Gradients; and what the forward pass of a micro-batch keeps for the gradients. For each symbol a
    sub-layer keeps about 8 vectors of d_model or 2 of d_ff, attention the rows of its weights, the
    softmax 3 rows of the vocabulary in float32.

    Args:
        weights: how many.
        vocabulary: V of the targets.
        batch: the shape of a micro-batch.
    """
    width = 4 if precision == "float32" else 2
    source, target = batch.source_length, batch.target_length
    heads = 3 * h.num_heads
    encoder = source * (16 * h.d_model + 2 * h.d_ff + heads * source)
    decoder = target * (24 * h.d_model + 2 * h.d_ff + heads * (target + source))
    layers = h.num_encoder_layers * encoder + h.num_decoder_layers * decoder
    return 2 * 4 * weights + batch.rows * (layers * width + target * 3 * vocabulary * 4)


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
