"""Models on Keras' JAX backend, where TensorFlow cannot be imported: python jax_process.py FOLDER.

FOLDER/models.json has the models' configurations by name, FOLDER/given.npz their weights and what
they are given; FOLDER/found.npz will have what they give.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np

SEEDS = [7, -9], [7, -8]


def outputs(model, inputs, targets, beams):
    """{name: what the model gives}: logits, those of cached steps, and those with dropout."""
    import jax

    from t2t_lite.layers.dropout import DropoutSeeds

    logits = jax.jit(lambda *sides: model(*sides))
    dropped = jax.jit(lambda seed: model(inputs, targets, seeds=DropoutSeeds(seed)))
    first, other = (np.array(seed, np.int32) for seed in SEEDS)
    return {
        "logits": logits(inputs, targets),
        "steps": steps(model, inputs, beams),
        "dropped": dropped(first),
        "dropped again": dropped(first),
        "dropped otherwise": dropped(other),
    }


def steps(model, inputs, beams):
    """[B, W, T] of chosen symbols -> logits [B, W, T, V], from a cache that grows once."""
    import jax

    width, length = beams.shape[1:]
    weights = model.search_weights()
    start = jax.jit(lambda ids: model.start(weights, ids, width, 2))
    grow = jax.jit(lambda cache: model.grow_cache(cache, length - 2))
    step = jax.jit(model.step)
    memory, cache = start(inputs)
    logits, ids = [], np.zeros(beams.shape[:2], np.int32)
    for position in range(length):
        cache = grow(cache) if position == 2 else cache
        found, cache = step(weights, ids, np.int32(position), memory, cache)
        logits.append(found)
        ids = beams[:, :, position]
    return np.stack(logits, axis=2)


def main(folder: Path):
    """Makes each model, and writes what all give."""
    from t2t_lite.models.transformer import Transformer

    given, found = np.load(folder / "given.npz"), {}
    for name, config in json.loads((folder / "models.json").read_text()).items():
        model = Transformer.from_config(config)
        model.set_weights([given[f"{name}/{i}"] for i in range(len(model.weights))])
        for key, value in outputs(model, given["inputs"], given["targets"], given["beams"]).items():
            found[f"{name}/{key}"] = np.asarray(value)
    np.savez(folder / "found.npz", **found)


if __name__ == "__main__":
    os.environ["KERAS_BACKEND"] = "jax"
    sys.modules["tensorflow"] = None  # an import of it fails
    main(Path(sys.argv[1]))
