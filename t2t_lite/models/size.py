"""How large a Transformer is: its parameters and its multiply-adds, from the hparams alone."""

from collections.abc import Sequence

from t2t_lite.config import HParams
from t2t_lite.layers.neighbourhood import Neighbourhood


def embedding_symbols(
    hparams: HParams, source_size: int, target_size: int, shared: bool
) -> list[int]:
    """V of each matrix of embeddings or softmax that a Transformer has; the target's are last."""
    source = [] if shared and hparams.share_embeddings else [source_size]
    return source + [target_size] * (1 if hparams.tie_softmax else 2)


def parameters(hparams: HParams, symbols: Sequence[int]) -> int:
    """How many numbers the model learns; those of `Transformer.count_params()`.

    Args:
        hparams: HParams.
        symbols: V of each matrix of embeddings or softmax, of `embedding_symbols`.
    """
    h = hparams
    feed_forward, norm = _feed_forward(h) + h.d_ff + h.d_model, 2 * h.d_model
    encoder = _mixing(h) + _mixing_biases(h) + feed_forward + 2 * norm
    decoder = 2 * _attention(h) + feed_forward + 3 * norm
    total = h.num_encoder_layers * encoder + h.num_decoder_layers * decoder
    if h.norm == "pre":
        total += 2 * norm  # after the last layer of each stack
    if h.positions == "learned":
        total += 2 * h.max_positions * h.d_model
    if h.target_space:
        total += h.d_model
    return total + sum(symbols) * h.d_model


def multiply_adds(hparams: HParams, target_symbols: int, source: int, target: int) -> int:
    """Those of the matrix products of one sentence pair's forward pass.

    An update does three times as many: the gradients of a product are two products of its size.

    Args:
        hparams: HParams.
        target_symbols: V of the softmax.
        source: sub-words of the input, padding included.
        target: those of the output.
    """
    h = hparams
    projections = _attention(h) // 2  # of queries and outputs, as many as of keys and values
    pair = h.num_heads * (h.d_k + h.d_v)  # scores and their sums, of one position with another
    encoder = source * (_mixing(h) + _feed_forward(h)) + scores(h, source) * pair
    decoder = target * (3 * projections + (target + source) * pair + _feed_forward(h))
    memory = source * projections  # its keys and values
    return (
        h.num_encoder_layers * encoder
        + h.num_decoder_layers * (decoder + memory)
        + target * h.d_model * target_symbols
    )


def search_multiply_adds(
    hparams: HParams, target_symbols: int, source: int, target: int, beam_size: int
) -> int:
    """Those of a search for one sentence: the encoder's once, a step's for each beam.

    Args:
        hparams: HParams.
        target_symbols: V of the softmax.
        source: sub-words of the input.
        target: steps of the search.
        beam_size: W.
    """
    h = hparams
    encoder = multiply_adds(h, target_symbols, source, 0)
    pair = multiply_adds(h, target_symbols, source, target) - encoder
    # Each step looks at what is there already: half of all positions in the mean.
    unseen = h.num_decoder_layers * h.num_heads * (h.d_k + h.d_v) * target * (target - 1) // 2
    return encoder + beam_size * (pair - unseen)


def scores(hparams: HParams, length: int) -> int:
    """How many scores a head of an encoder layer computes."""
    if hparams.encoder_layer == "self_attention":
        return length**2
    if hparams.encoder_layer == "restricted_self_attention":
        return Neighbourhood(hparams.neighbourhood).scores(length)
    return 0


def _mixing(h: HParams) -> int:
    """Weights, each of one multiply-add a position, of the encoder's layer type of Table 1."""
    if h.encoder_layer == "convolution":
        return h.kernel_size * h.d_model**2
    if h.encoder_layer == "recurrent":
        return sum(3 * units * (h.d_model + units) for units in _directions(h))
    return _attention(h)


def _mixing_biases(h: HParams) -> int:
    if h.encoder_layer == "convolution":
        return h.d_model
    if h.encoder_layer == "recurrent":
        return sum(3 * units for units in _directions(h))
    return 0


def _directions(h: HParams) -> tuple[int, int]:
    """Recurrent units that read forwards and backwards."""
    return h.d_model - h.d_model // 2, h.d_model // 2


def _attention(h: HParams) -> int:
    """Weights of queries, keys, values and outputs (section 3.2.2)."""
    return 2 * h.d_model * h.num_heads * (h.d_k + h.d_v)


def _feed_forward(h: HParams) -> int:
    return 2 * h.d_model * h.d_ff
