"""The Transformer in NumPy float64, from the paper's formulas: what ours is compared with.

Weights come as {path: array}, the paths those of `t2t_lite.arrays.model_variables`.
"""

import numpy as np


def below(weights, prefix):
    """The weights of one part: those whose paths begin with `prefix/`, without it."""
    return {
        path[len(prefix) + 1 :]: value
        for path, value in weights.items()
        if path.startswith(prefix + "/")
    }


def softmax(x):
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def layer_norm(x, weights):
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-6) * weights["gamma"] + weights["beta"]


def attention(queries, keys, values, mask, bias=0):
    """Eq. 1, the scores plus a bias, and minus infinity where masked (section 3.2.3)."""
    scores = queries @ np.swapaxes(keys, -1, -2) / np.sqrt(queries.shape[-1]) + bias
    return softmax(np.where(mask, scores, -np.inf)) @ values


def multi_head_attention(x, memory, mask, weights, num_heads, bias=0):
    """Section 3.2.2, one head after the other.

    mask: bool, broadcast to [B, T, S]; bias: of the scores, to [B, H, T, S].
    """
    w_q, w_k, w_v = (
        np.split(weights[f"{name}/kernel"], num_heads, axis=1) for name in ("query", "key", "value")
    )
    bias = np.broadcast_to(bias, (len(x), num_heads, x.shape[1], memory.shape[1]))
    heads = [
        attention(x @ w_q[i], memory @ w_k[i], memory @ w_v[i], mask, bias[:, i])
        for i in range(num_heads)
    ]
    return np.concatenate(heads, axis=-1) @ weights["output/kernel"]


def feed_forward(x, weights):
    """Eq. 2."""
    inner = np.maximum(0, x @ weights["inner/kernel"] + weights["inner/bias"])
    return inner @ weights["outer/kernel"] + weights["outer/bias"]


def residual(x, sublayer, weights, norm):
    if norm == "post":
        return layer_norm(x + sublayer(x), below(weights, "layer_norm"))
    return x + sublayer(layer_norm(x, below(weights, "layer_norm")))


def positions(length, d_model):
    """Section 3.5, element by element."""
    table = np.zeros((length, d_model))
    for pos in range(length):
        for column in range(d_model):
            angle = pos / 10000 ** (2 * (column // 2) / d_model)
            table[pos, column] = np.sin(angle) if column % 2 == 0 else np.cos(angle)
    return table


def timing(length, d_model):
    """tensor2tensor's positions: sines, then cosines, then 0 where d_model is odd."""
    table, half = np.zeros((length, d_model)), d_model // 2
    for pos in range(length):
        for column in range(half):
            angle = pos * np.exp(-np.log(1e4) * column / (half - 1))
            table[pos, column], table[pos, half + column] = np.sin(angle), np.cos(angle)
    return table


def neighbours(length, size):
    """Bool [S, S]: the `size` positions centred on each one, of an even size the further behind."""
    seen = np.zeros((length, length), bool)
    for position in range(length):
        first = position - (size - 1) // 2
        seen[position, max(first, 0) : first + size] = True
    return seen


def convolution(x, mask, weights):
    """Section 4: a sum over a kernel's places, of what lies inside and is no padding."""
    kernel, result = weights["convolution/kernel"], np.zeros(x.shape) + weights["convolution/bias"]
    for row in range(len(x)):
        for position in range(x.shape[1]):
            for place, matrix in enumerate(kernel):
                other = position + place - (len(kernel) - 1) // 2
                if 0 <= other < x.shape[1] and mask[row, 0, other]:
                    result[row, position] += x[row, other] @ matrix
    return result


def recurrent(x, mask, weights):
    """Gated recurrent units (Cho et al., 2014) over what is no padding, in both directions."""

    def sigmoid(y):
        return 1 / (1 + np.exp(-y))

    def read(line, name):
        projected = line @ weights[f"{name}_input/kernel"] + weights[f"{name}_input/bias"]
        u_z, u_r, u_c = np.split(weights[f"{name}_state"], 3, axis=1)
        state, states = np.zeros(len(u_z)), []
        for x_z, x_r, x_c in (np.split(row, 3) for row in projected):
            z, r = sigmoid(x_z + state @ u_z), sigmoid(x_r + state @ u_r)
            state = z * state + (1 - z) * np.tanh(x_c + r * (state @ u_c))
            states.append(state)
        return np.array(states)

    result = np.zeros(x.shape)
    for row, length in enumerate(mask[:, 0].sum(axis=1)):
        line = x[row, :length]
        if length:
            directions = read(line, "forward"), read(line[::-1], "backward")[::-1]
            result[row, :length] = np.concatenate(directions, axis=1)
    return result


def mixing(x, mask, weights, hparams):
    """The layer type of Table 1 that hparams name."""
    if hparams.encoder_layer == "convolution":
        return convolution(x, mask, weights)
    if hparams.encoder_layer == "recurrent":
        return recurrent(x, mask, weights)
    if hparams.encoder_layer == "restricted_self_attention":
        mask = mask & neighbours(x.shape[1], hparams.neighbourhood)
    return multi_head_attention(x, x, mask, weights, hparams.num_heads)


def encoder_layer(x, mask, weights, hparams):
    kind = hparams.encoder_layer

    def mix(y):
        return mixing(y, mask, below(weights, kind), hparams)

    def feed(y):
        return feed_forward(y, below(weights, "feed_forward"))

    x = residual(x, mix, below(weights, f"{kind}_residual"), hparams.norm)
    return residual(x, feed, below(weights, "feed_forward_residual"), hparams.norm)


def decoder_layer(x, memory, self_mask, cross_mask, weights, hparams, cross_bias=0):
    def attend_left(y):
        return multi_head_attention(
            y, y, self_mask, below(weights, "self_attention"), hparams.num_heads
        )

    def attend_across(y):
        weights_ = below(weights, "cross_attention")
        return multi_head_attention(y, memory, cross_mask, weights_, hparams.num_heads, cross_bias)

    def feed(y):
        return feed_forward(y, below(weights, "feed_forward"))

    x = residual(x, attend_left, below(weights, "self_attention_residual"), hparams.norm)
    x = residual(x, attend_across, below(weights, "cross_attention_residual"), hparams.norm)
    return residual(x, feed, below(weights, "feed_forward_residual"), hparams.norm)


def encoder(x, mask, weights, hparams):
    for i in range(hparams.num_encoder_layers):
        x = encoder_layer(x, mask, below(weights, f"layer_{i}"), hparams)
    return layer_norm(x, below(weights, "final_norm")) if hparams.norm == "pre" else x


def decoder(x, memory, cross_mask, weights, hparams, cross_bias=0):
    self_mask = np.tril(np.ones((x.shape[1], x.shape[1]), bool))
    for i in range(hparams.num_decoder_layers):
        x = decoder_layer(
            x, memory, self_mask, cross_mask, below(weights, f"layer_{i}"), hparams, cross_bias
        )
    return layer_norm(x, below(weights, "final_norm")) if hparams.norm == "pre" else x


def embed(ids, matrix):
    """Section 3.4; padding is the zero vector."""
    return matrix[ids] * np.sqrt(matrix.shape[1]) * (ids != 0)[..., None]


def next_word_scores(inputs, shifted, words, num_heads):
    """[B, H, T, S]: -2 / 4^h for each sub-word of distance from the next word.

    That is where it begins after the symbols shifted[: t + 1], or EOS where no word is left.
    """
    begins_word, names_word = (np.array(flags) for flags in words)
    scores = np.zeros((len(inputs), num_heads, shifted.shape[1], inputs.shape[1]))
    for row, symbols in enumerate(inputs):
        length = np.count_nonzero(symbols)
        places = [place for place in range(length) if begins_word[symbols[place]]] + [
            length - 1
        ] * shifted.shape[1]
        for t in range(shifted.shape[1]):
            next_place = places[sum(names_word[shifted[row, : t + 1]])]
            for head in range(num_heads):
                scores[row, head, t] = [
                    -2 / 4**head * abs(place - next_place) for place in range(inputs.shape[1])
                ]
    return scores


def transformer(inputs, targets, weights, hparams, shared, words=None):
    """inputs [B, S], targets [B, T] -> logits [B, T, V]."""
    one = shared and hparams.share_embeddings
    source = weights["embedding/embeddings" if one else "source_embedding/embeddings"]
    target = weights["embedding/embeddings" if one else "target_embedding/embeddings"]
    softmax = target if hparams.tie_softmax else weights["softmax/embeddings"]

    def with_positions(x, side):
        if hparams.positions == "learned":
            return x + weights[f"{side}_positions/table"][: x.shape[1]]
        table = positions if hparams.positions == "sinusoidal" else timing
        return x + table(x.shape[1], hparams.d_model)

    mask, x = (inputs != 0)[:, None, :], embed(inputs, source)
    if hparams.target_space:
        x = x + weights["target_space/vector"]
    memory = encoder(with_positions(x, "source"), mask, below(weights, "encoder"), hparams)
    shifted = np.concatenate([np.zeros_like(targets[:, :1]), targets[:, :-1]], axis=1)
    x = with_positions(embed(shifted, target), "target")
    bias = 0 if words is None else next_word_scores(inputs, shifted, words, hparams.num_heads)
    return decoder(x, memory, mask, below(weights, "decoder"), hparams, bias) @ softmax.T
