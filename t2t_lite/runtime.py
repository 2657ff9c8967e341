"""Starting TensorFlow: quietly, with its threads set for what is to come."""

import contextlib
import os
import sys
import warnings

from t2t_lite.errors import Failed, UserError
from t2t_lite.quiet import native_stderr_silenced


def start_tensorflow(threads: int | None = None, *, together: bool = True) -> int:
    """Imports TensorFlow and sets its threads, unless it runs already.

    Args:
        threads: how many it uses, on CPUs; None: all.
        together: whether they share each operation. False: each has one thread, and that many run
            at the same time. It is faster where several batches are at hand, since small operations
            gain little from a second thread.

    Returns:
        How many calls of a model to have at the same time: 1, or with `together` False and no GPU
        the number of threads. Where TensorFlow runs already, with operations that share threads, it
        is 1, and a warning says once what to do.

    Raises UserError where Keras cannot be used as it is set: on another backend, or with another
    type of numbers than float32; and under -OO.
    """
    if threads is not None and threads < 1:
        raise UserError(f"threads={threads}: expected at least 1")
    if sys.flags.optimize > 1:
        raise UserError(
            "Python runs without docstrings (-OO, or PYTHONOPTIMIZE=2), and tensorflow_text does "
            "not start so; expected at most -O"
        )
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow's own start-up talk
    with native_stderr_silenced():  # which no environment variable keeps from talking on stderr
        _import_keras()
        import tensorflow as tf

        gpus = tf.config.list_physical_devices("GPU")
        together = together or bool(gpus)
        with contextlib.suppress(RuntimeError):  # it runs already
            tf.config.threading.set_intra_op_parallelism_threads((threads or 0) if together else 1)
            tf.config.threading.set_inter_op_parallelism_threads(threads or 0)
    if together:
        return 1
    wanted = threads or cores()
    if tf.config.threading.get_intra_op_parallelism_threads() != 1 and wanted > 1:
        warnings.warn(
            "TensorFlow runs already, so one batch is translated at a time; for all cores load the "
            "model first, or begin with tf.config.threading.set_intra_op_parallelism_threads(1)",
            stacklevel=3,
        )
        return 1
    return min(wanted, tf.config.threading.get_inter_op_parallelism_threads() or cores())


def _import_keras() -> None:
    """Imports Keras, whatever another project's keras.json says; what code has set stays so."""
    ours = "keras" not in sys.modules
    try:
        import keras
        import tensorflow  # noqa: F401, reads the file too
    except (ModuleNotFoundError, ValueError, AttributeError, AssertionError) as error:
        folder = os.environ.get("KERAS_HOME", os.path.join(os.path.expanduser("~"), ".keras"))
        raise UserError(
            f"Keras cannot be imported ({type(error).__name__}: {error}); "
            f"see {os.path.join(folder, 'keras.json')} and the variable KERAS_BACKEND"
        ) from error
    except ImportError as error:  # of a library that does not fit into memory, for one
        raise Failed(f"TensorFlow cannot be loaded: {error}") from error
    if keras.config.backend() != "tensorflow":
        raise UserError(
            f"Keras runs on {keras.config.backend()}; expected tensorflow: "
            "set the variable KERAS_BACKEND to it before Keras is imported"
        )
    if ours:
        keras.config.set_floatx("float32")
    if keras.config.floatx() != "float32":  # types that the model leaves open follow from it
        raise UserError(
            f"Keras' floatx is {keras.config.floatx()}; expected float32: "
            'call keras.config.set_floatx("float32"), or load the model before Keras is imported'
        )


def cores() -> int:
    """The CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
