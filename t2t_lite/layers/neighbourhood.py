"""A neighbourhood of r positions (section 4), and the blocks in which its attention is computed."""

from typing import NamedTuple

_SHORTEST = 16  # positions of a block: products of smaller matrices cost more than they leave out


class Neighbourhood(NamedTuple):
    """The r positions around each one that it sees, itself among them.

    Blocks are so long that what a block's positions see lies in it and in the two beside it.

    Attributes:
        size: r; of an even one the further half lies behind.
    """

    size: int

    @property
    def before(self) -> int:
        """Positions seen before the own one."""
        return (self.size - 1) // 2

    @property
    def after(self) -> int:
        """Positions seen behind the own one."""
        return self.size // 2

    @property
    def block(self) -> int:
        """R, positions of a block."""
        return max(self.after, _SHORTEST)

    def scores(self, length: int) -> int:
        """How many a head computes of a sequence; at most (3 / 2 r + 48) (length + r / 2 + 16)."""
        blocks = -(-length // self.block)
        return blocks * self.block * 3 * self.block
