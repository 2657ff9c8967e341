"""Sub-word regularisation: other spellings of a text, drawn at random.

By a generator of our own. What SentencePiece draws differs from process to process, whatever its
seed: no training could be repeated, or resumed as if it had not been interrupted.
"""

import heapq
import math
import random
import re

from sentencepiece import sentencepiece_model_pb2

_UNKNOWN = 10.0  # by how much a character that is no sub-word is less likely than the rarest one


class Sampler:
    """Draws spellings of texts in the sub-words of a SentencePiece model, `bpe` or `unigram`.

    With a `bpe` model each merge is left out with probability `alpha` (BPE-dropout, Provilkov et
    al. 2020); with a `unigram` model spellings are drawn by their probabilities to the power of
    `alpha` (Kudo 2018).
    """

    def __init__(self, model: sentencepiece_model_pb2.ModelProto):
        ids = {kind: {} for kind in range(1, 7)}
        for number, piece in enumerate(model.pieces):
            ids[piece.type][piece.piece] = number
        kinds = model.SentencePiece
        self._scores = {piece: model.pieces[id].score for piece, id in ids[kinds.NORMAL].items()}
        self._longest = max(map(len, self._scores), default=1)
        self._rarest = min(self._scores.values(), default=0.0) - _UNKNOWN
        self._ids = ids[kinds.NORMAL] | ids[kinds.USER_DEFINED]
        self._bytes = [ids[kinds.BYTE][name] for name in sorted(ids[kinds.BYTE])]
        [self._unknown] = ids[kinds.UNKNOWN].values()
        symbols = sorted(ids[kinds.USER_DEFINED], key=len, reverse=True)
        # Between parentheses, so that `split` gives every other time one of them; at first none.
        self._symbols = re.compile(f"({'|'.join(map(re.escape, symbols)) or '(?!)'})")
        is_bpe = model.trainer_spec.model_type == model.trainer_spec.BPE
        self._spell = self._merged if is_bpe else self._cut

    def draw(self, text: str, seed: int, alpha: float) -> list[int]:
        """The ids of a text, which is as SentencePiece normalises it, without EOS."""
        chooser = random.Random(seed)
        pieces = []
        for number, part in enumerate(self._symbols.split(text)):
            pieces += [part] if number % 2 else self._spell(part, chooser, alpha)
        ids = []
        for piece in pieces:
            if piece in self._ids:
                ids.append(self._ids[piece])
            elif self._bytes:
                ids += [self._bytes[byte] for byte in piece.encode()]
            elif ids[-1:] != [self._unknown]:  # SentencePiece writes one for all side by side
                ids.append(self._unknown)
        return ids

    def _merged(self, text: str, chooser: random.Random, alpha: float) -> list[str]:
        """Characters, joined pair by pair, the best first; some by chance are not."""
        pieces = list(text)
        # Of each piece the place of the one before and after; a piece that was joined is empty.
        before, after = list(range(-1, len(text) - 1)), list(range(1, len(text) + 1))
        pairs = []

        def look(left: int, right: int) -> None:
            if left >= 0 and right < len(pieces):
                both = pieces[left] + pieces[right]
                if (score := self._scores.get(both)) is not None:
                    heapq.heappush(pairs, (-score, left, right, both))

        for right in range(1, len(text)):
            look(right - 1, right)
        while pairs:
            _, left, right, both = heapq.heappop(pairs)
            there = pieces[left] and pieces[right] and pieces[left] + pieces[right] == both
            if not there or chooser.random() < alpha:
                continue
            pieces[left], pieces[right] = both, ""
            after[left] = after[right]
            if after[left] < len(pieces):
                before[after[left]] = left
            look(before[left], left)
            look(left, after[left])
        return list(filter(None, pieces))

    def _cut(self, text: str, chooser: random.Random, alpha: float) -> list[str]:
        """A way to cut the text, drawn by forward filtering and backward sampling."""
        totals, lasts = [0.0], [[]]  # of each beginning of the text; logarithms, to the power
        for end in range(1, len(text) + 1):
            found = []
            for start in range(max(0, end - self._longest), end):
                unknown = self._rarest if start == end - 1 else None
                score = self._scores.get(text[start:end], unknown)
                if score is not None:
                    found.append((totals[start] + alpha * score, start))
            most = max(found)[0]
            totals.append(most + math.log(sum(math.exp(total - most) for total, _ in found)))
            lasts.append(found)
        pieces, end = [], len(text)
        while end:
            shares = [math.exp(total - totals[end]) for total, _ in lasts[end]]
            [(_, start)] = chooser.choices(lasts[end], shares)
            pieces.append(text[start:end])
            end = start
        return pieces[::-1]
