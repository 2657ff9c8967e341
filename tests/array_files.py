"""Variables, and files of their values as other programs may have written them."""

import numpy as np
import tensorflow as tf
from safetensors.numpy import save_file

from t2t_lite.arrays import arrays


def variables(value=0.0):
    return {
        "kernel": tf.Variable(np.full((2, 3), value, np.float32)),
        "bias": tf.Variable(np.full(3, value + 0.5)),
    }


def written(path, values=None, about='{"step": 1, "position": {}}'):
    """A file of these arrays, for variables() by default, and of anything beside them."""
    values = arrays(variables()) if values is None else values
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(values, path, metadata=None if about is None else {"about": about})
    return path
