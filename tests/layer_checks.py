"""What the tests of layers and model share: random weights, a twin from the configuration, a graph's operations."""

import json

import numpy as np
import tensorflow as tf

from t2t_lite.training.checkpoints import model_variables

_PRODUCTS = ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum", "_FusedMatMul")


def randomise(layer, seed=1):
    """Gives every weight, those that start at 0 or 1 too, a random value. Returns the layer."""
    random = np.random.default_rng(seed)
    for path, variable in model_variables(layer).items():
        centre = 1.0 if path.endswith("gamma") else 0.0
        variable.assign(centre + random.normal(scale=0.3, size=variable.shape))
    return layer


def weights(layer):
    """{path below the layer's name: float64 array}."""
    return {
        path: variable.numpy().astype(np.float64)
        for path, variable in model_variables(layer).items()
    }


def twin(layer, *shape):
    """Another layer from the layer's configuration, which must survive JSON, with the same weights."""
    config = layer.get_config()
    other = type(layer).from_config(json.loads(json.dumps(config)))
    assert other.get_config() == config
    if not other.built:
        other.build(shape)
    other.set_weights(layer.get_weights())
    return other


def operations(function, *arguments):
    """[(kind, dtype)] of all operations in the graph of `function`, and in the functions that it calls."""
    graph = tf.function(function).get_concrete_function(*arguments).graph.as_graph_def()
    nodes = [*graph.node, *(node for called in graph.library.function for node in called.node_def)]
    return [
        (node.op, tf.as_dtype(node.attr["T"].type).name) for node in nodes if node.attr["T"].type
    ]


def product_types(found):
    """The set of the matrix products' dtypes among `operations`; there must be some."""
    products = {dtype for kind, dtype in found if kind in _PRODUCTS}
    assert products
    return products


def assert_bfloat16(layer, function, *arguments):
    """Weights float32, matrix products bfloat16, softmax and the statistics of normalisations float32."""
    assert {variable.dtype.name for variable in model_variables(layer).values()} <= {"float32"}
    found = operations(function, *arguments)
    assert product_types(found) == {"bfloat16"}
    for kind, dtype in found:
        if kind in ("Softmax", "Exp", "Rsqrt", "Mean", "SquaredDifference", "FusedBatchNormV3"):
            assert dtype == "float32", kind
    return found
