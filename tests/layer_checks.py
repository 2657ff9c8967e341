"""What tests of layers and model share: random weights, twins, one test for all, operations."""

import json

import numpy as np
import tensorflow as tf

from t2t_lite.arrays import arrays, load_arrays, model_variables, write_arrays
from t2t_lite.layers.dropout import DropoutSeeds

_PRODUCTS = "MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3 Einsum _FusedMatMul Conv2D".split()


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
    """Another layer of its configuration, which must survive JSON, and of its weights."""
    config = layer.get_config()
    other = type(layer).from_config(json.loads(json.dumps(config)))
    assert other.get_config() == config
    if not other.built:
        other.build(shape)
    other.set_weights(layer.get_weights())
    return other


def saved_and_loaded(layer, shape, path):
    """Another layer from the layer's configuration, of other weights, and a file of this one's."""
    other = type(layer).from_config(layer.get_config())
    if not other.built:
        other.build(shape)
    randomise(other, seed=2)
    write_arrays(path, arrays(model_variables(layer)), {})
    load_arrays(path, model_variables(other))
    return other


def flat(outputs):
    """The tensors of a nest as NumPy arrays, bfloat16 ones in float32."""
    return [tf.cast(tensor, "float32").numpy() for tensor in tf.nest.flatten(outputs)]


def assert_same(ones, others, atol=0.0):
    """Two nests of tensors."""
    for one, other in zip(flat(ones), flat(others), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=atol)


def run_layer_test(
    make, build_shape, call, shapes, path, drops=True, products=True, half_type="bfloat16"
):
    """What holds for every layer.

    Args:
        make: (dtype=..., name=...) -> a layer with a dropout rate, if it has any.
        build_shape: what `build` takes.
        call: (layer, **seeds) -> its outputs for some inputs.
        shapes: of the outputs, in their order.
        path: of a file to write.
        drops: whether it has a dropout; else its call takes no seeds.
        products: whether it has matrix products.
        half_type: the type of its first output where it computes in bfloat16.
    """
    layer = make(dtype="float32", name="layer")
    if not layer.built:
        layer.build(build_shape)
    before = [variable.path for variable in layer.variables]
    outputs = call(randomise(layer))
    assert [variable.path for variable in layer.variables] == before  # build made all of them
    assert len(set(before)) == len(before)
    assert [tensor.shape for tensor in flat(outputs)] == shapes
    assert {tensor.dtype.name for tensor in tf.nest.flatten(outputs)} == {"float32"}
    assert all(np.all(np.isfinite(tensor)) for tensor in flat(outputs))
    assert_same(call(layer), outputs)

    for other in twin(layer, *build_shape), saved_and_loaded(layer, build_shape, path):
        assert_same(call(other), outputs)
        if drops:
            first, again, another = (
                flat(call(each, seeds=DropoutSeeds(tf.constant([1, n]))))[0]
                for each, n in ((layer, 2), (other, 2), (layer, 3))
            )
            np.testing.assert_array_equal(first, again)
            assert np.any(first != another) and np.any(first != flat(outputs)[0])

    half = make(dtype="mixed_bfloat16", name="layer")
    if not half.built:
        half.build(build_shape)
    half.set_weights(layer.get_weights())
    assert tf.nest.flatten(call(half))[0].dtype == half_type
    if products:
        assert_bfloat16(half, lambda: call(half))
    scale = max(np.abs(tensor).max() for tensor in flat(outputs))
    assert_same(call(half), outputs, atol=0.1 * scale)
    assert_same(call(twin(half, *build_shape)), call(half))


def operations(function, *arguments):
    """[(kind, dtype)] of all operations in the graph of `function` and of those that it calls."""
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
    """Products in bfloat16; weights, softmax and the normalisations' statistics in float32."""
    assert {variable.dtype.name for variable in model_variables(layer).values()} <= {"float32"}
    found = operations(function, *arguments)
    assert product_types(found) == {"bfloat16"}
    for kind, dtype in found:
        if kind in ("Softmax", "Exp", "Rsqrt", "Mean", "SquaredDifference", "FusedBatchNormV3"):
            assert dtype == "float32", kind
    return found
