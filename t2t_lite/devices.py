"""Devices, and what is chosen for them: the strategy, XLA, the warning when a GPU goes unused."""

import functools
import sys

import tensorflow as tf

from t2t_lite.cluster import Cluster
from t2t_lite.errors import UserError
from t2t_lite.joining import join


@functools.cache
def make_strategy(
    logical_devices: int | None = None, cluster: Cluster | None = None
) -> tf.distribute.Strategy:
    """MirroredStrategy over all visible GPUs, else over the CPU; over those of a cluster's workers.

    Always the same one in a process: a second over the same devices would number its collectives
    from the start again, and TensorFlow takes those for the first one's.

    Args:
        logical_devices: cut the CPU into this many devices and use those, to try several replicas
            without GPUs. Must be asked for before TensorFlow has used its devices.
        cluster: the workers that train together; waits for them.
    """
    if cluster:
        return join(cluster)
    if logical_devices:
        cpu = tf.config.list_physical_devices("CPU")[0]
        try:
            tf.config.set_logical_device_configuration(
                cpu, [tf.config.LogicalDeviceConfiguration()] * logical_devices
            )
        except RuntimeError:
            if len(tf.config.list_logical_devices("CPU")) < logical_devices:
                raise UserError(
                    f"--logical_devices={logical_devices}: TensorFlow has started with fewer"
                ) from None
        return tf.distribute.MirroredStrategy([f"/cpu:{i}" for i in range(logical_devices)])
    gpus = tf.config.list_logical_devices("GPU")
    if not gpus and tf.test.is_built_with_cuda() and _nvidia_wheels():
        print(
            "warning: TensorFlow's CUDA packages are installed, but it finds no GPU (is the driver "
            "there? nvidia-smi tells); using the CPU",
            file=sys.stderr,
        )
    return tf.distribute.MirroredStrategy([gpu.name for gpu in gpus] or ["/cpu:0"])


def _nvidia_wheels() -> bool:
    """Whether the extra [cuda] is installed; every Linux wheel of TensorFlow is a CUDA build."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        version("nvidia-cudnn-cu12")
    except PackageNotFoundError:
        return False
    return True


def choose_xla(setting: str) -> tuple[bool, str]:
    """--xla=auto|on|off -> (whether, why)."""
    if setting != "auto":
        return setting == "on", f"--xla={setting}"
    if tf.config.list_logical_devices("GPU"):
        return True, "auto: faster on GPUs"
    return False, "auto: on CPUs TensorFlow's own kernels are as fast"
