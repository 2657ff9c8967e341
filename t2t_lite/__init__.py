"""The Transformer of "Attention Is All You Need" in Keras 3, in the manner of tensor2tensor.

The names below are imported when first used, so that `import t2t_lite` and `--help` stay fast.
"""

import importlib

__version__ = "0.1.0"

_EXPORTS = {
    "HParams": "t2t_lite.config",
    "UserError": "t2t_lite.errors",
    "Problem": "t2t_lite.problem",
    "Decoding": "t2t_lite.problem",
    "register_problem": "t2t_lite.registry",
    "register_hparams": "t2t_lite.registry",
    "load": "t2t_lite.runs",
}
__all__ = [*_EXPORTS, "__version__"]


def __getattr__(name):
    if name in _EXPORTS:
        return getattr(importlib.import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module 't2t_lite' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
