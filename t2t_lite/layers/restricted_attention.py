"""Self-attention restricted to a neighbourhood (section 4, Table 1)."""

from keras import ops

from t2t_lite.layers.attention import MultiHeadAttention, scaled_dot_product_attention
from t2t_lite.layers.linear import reshape
from t2t_lite.layers.neighbourhood import Neighbourhood


class RestrictedSelfAttention(MultiHeadAttention):
    """Self-attention in which each position sees the r around it: O(r n d) in time and memory.

    Queries are cut into blocks, of which each attends to itself and the two beside it; there is
    never a matrix of n x n. The projections are those of any attention.

    Args:
        neighbourhood: r, see `Neighbourhood`.
        num_heads, d_k, d_v, dropout: as for MultiHeadAttention.

    Call arguments and returns as `SelfAttention`'s. N: blocks, R: positions of a block.
    """

    def __init__(self, neighbourhood, num_heads, d_k, d_v, dropout=0.0, **kwargs):
        super().__init__(num_heads, d_k, d_v, dropout, **kwargs)
        self.neighbourhood = Neighbourhood(neighbourhood)

    def call(self, x, mask, seeds=None, return_attention=False):
        """Attends, block by block."""
        length = ops.shape(x)[1]
        keys, values = self.project_memory(x)
        heads, weights = scaled_dot_product_attention(
            self._blocks(self.project_queries(x)),
            self._windows(keys),
            self._windows(values),
            ops.logical_and(self._band(), self._windows(mask[:, :, 0, :, None])[..., None, :, 0]),
            dropout=lambda weights: self.dropout(weights, seeds=seeds),
        )
        heads = _joined(heads)[:, :, :length]
        return self.join_heads(heads), self._whole(weights, length) if return_attention else None

    def _blocks(self, x):
        """[B, H, S, K] -> [B, H, N, R, K], the last block filled up with zeros."""
        size = self.neighbourhood.block
        batch, heads, length, width = ops.shape(x)
        x = ops.pad(x, [[0, 0], [0, 0], [0, -length % size], [0, 0]])
        return reshape(x, batch, heads, (length + size - 1) // size, size, width)

    def _windows(self, x):
        """[B, H, S, K] -> [B, H, N, 3 R, K]: each block between those beside it."""
        blocks = ops.pad(self._blocks(x), [[0, 0], [0, 0], [1, 1], [0, 0], [0, 0]])
        return ops.concatenate([blocks[:, :, :-2], blocks[:, :, 1:-1], blocks[:, :, 2:]], axis=3)

    def _band(self):
        """Bool [R, 3 R]: which places of its window a block's positions see."""
        size = self.neighbourhood.block
        distance = ops.arange(3 * size) - size - ops.arange(size)[:, None]
        return ops.logical_and(
            distance >= -self.neighbourhood.before, distance <= self.neighbourhood.after
        )

    def _whole(self, weights, length):
        """[B, H, N, R, 3 R] -> [B, H, S, S], for those who want to look at it.

        Block n's rows belong n blocks further to the right than they stand. So each is written into
        rows that are one block longer than those in which it is read.
        """
        size = self.neighbourhood.block
        batch, heads, blocks = ops.shape(weights)[:3]
        width = (blocks + 2) * size  # a block too many at both ends
        rows = ops.pad(ops.swapaxes(weights, 2, 3), [[0, 0]] * 4 + [[0, blocks * size]])
        rows = ops.reshape(rows, (batch, heads, size, blocks * (width + size)))
        rows = ops.reshape(rows[..., : blocks * width], (batch, heads, size, blocks, width))
        return _joined(ops.swapaxes(rows, 2, 3))[:, :, :length, size : size + length]

    def get_config(self):
        """What the constructor takes."""
        return {**super().get_config(), "neighbourhood": self.neighbourhood.size}


def _joined(blocks):
    """[B, H, N, R, K] -> [B, H, N * R, K]."""
    batch, heads, count, size, width = ops.shape(blocks)
    return reshape(blocks, batch, heads, count * size, width)
