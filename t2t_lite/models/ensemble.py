"""An ensemble: several Transformers that write one output together."""

import functools

import keras
from keras import ops

from t2t_lite.layers.attention import AttentionWeights
from t2t_lite.models.transformer import Transformer


class Ensemble(keras.Model):
    """Predicts with the mean of its members' probabilities.

    It has what the search, the scoring and the exports use of a Transformer, with the members'
    memories and caches side by side, so that none of these knows of it. What it gives as logits are
    log probabilities already.

    Args:
        members: Transformers of the same vocabularies, of any sizes.

    Example:
        model = Ensemble([first, second])
        log_probs = model(inputs, targets)
    """

    def __init__(self, members, **kwargs):
        super().__init__(**kwargs)
        self.members = list(members)
        self.built = True

    @property
    def longest(self) -> int:
        """Symbols of the longest line that all can read."""
        return min(member.longest for member in self.members)

    def call(self, inputs, targets):
        """int32 [B, S], int32 [B, T] -> float32 [B, T, V], log probabilities."""
        return mean_log_probs([member(inputs, targets) for member in self.members])

    def attention(self, inputs, targets):
        """As a Transformer's, the heads of all members side by side: sum of H in place of H.

        Of each kind, layers are counted from the last, as many as the member with the fewest has.
        """
        each = [member.attention(inputs, targets) for member in self.members]
        return AttentionWeights(*map(_side_by_side, zip(*each)))

    def search_weights(self):
        """As a Transformer's; a list of the members' own."""
        return [member.search_weights() for member in self.members]

    def start(self, weights, inputs, beam_size, max_length):
        """As a Transformer's; memory and cache are lists of the members' own."""
        started = [
            member.start(own, inputs, beam_size, max_length)
            for member, own in zip(self.members, weights)
        ]
        return [memory for memory, _ in started], [cache for _, cache in started]

    def reorder_cache(self, cache, parents):
        """As a Transformer's."""
        return [member.reorder_cache(own, parents) for member, own in zip(self.members, cache)]

    def grow_cache(self, cache, positions):
        """As a Transformer's."""
        return [member.grow_cache(own, positions) for member, own in zip(self.members, cache)]

    def step(self, weights, ids, position, memory, cache):
        """As a Transformer's; for logits it returns log probabilities, float32 [B, W, V]."""
        steps = [
            member.step(own, ids, position, own_memory, own_cache)
            for member, own, own_memory, own_cache in zip(self.members, weights, memory, cache)
        ]
        return mean_log_probs([logits for logits, _ in steps]), [cache for _, cache in steps]

    def get_config(self):
        """What `from_config` takes."""
        return {
            **super().get_config(),
            "members": [member.get_config() for member in self.members],
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """An ensemble of new Transformers of the same sizes."""
        members = [Transformer.from_config(member) for member in config["members"]]
        return cls(**{**config, "members": members})


def _side_by_side(members):
    """M lists of [B, H, T, S], one for each layer -> the last layers' [B, sum of H, T, S]."""
    depth = min(map(len, members))
    return [
        ops.concatenate(layers, axis=1)
        for layers in zip(*(weights[len(weights) - depth :] for weights in members))
    ]


def mean_log_probs(logits):
    """The logarithm of the mean of the members' softmaxes: M x float32 [..., V] -> [..., V].

    The largest of a symbol's log probabilities is taken out first, so that none underflows, and the
    mean of equal ones is they themselves.
    """
    each = [ops.log_softmax(of_one) for of_one in logits]
    largest = functools.reduce(ops.maximum, each)
    total = sum(ops.exp(log_probs - largest) for log_probs in each)
    return largest + ops.log(total / len(each))
