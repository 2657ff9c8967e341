"""BLEU and chrF by sacreBLEU, and BLEU as papers of 2017 quoted it for English-German.

Each function takes the hypotheses and one or more lists of references, line by line, and returns a
Score.
"""

import functools
import re
import sys
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from t2t_lite.errors import UserError, unknown


class Score(NamedTuple):
    """A figure from 0 to 100, its details in a line, and the signature of how it was computed."""

    value: float
    text: str
    signature: str

    def __str__(self):
        return f"{self.text} {self.signature}"


def corpus_bleu(
    hypotheses: Sequence[str],
    *references: Sequence[str],
    lowercase: bool = False,
    tokenize: str = "13a",
) -> Score:
    """sacreBLEU of detokenised lines.

    `tokenize` is a name of sacreBLEU's, or `t2t`, of `tensor2tensor_tokens`. Raises UserError for
    one that is not known or cannot be loaded.
    """
    from sacrebleu.metrics import BLEU

    _check_not_empty(hypotheses)
    if tokenize == "t2t":
        tokens = [
            [" ".join(tensor2tensor_tokens(line)) for line in lines]
            for lines in (hypotheses, *references)
        ]
        metric = BLEU(lowercase=lowercase, tokenize="none", force=True)
        score = _score(metric, tokens[0], tokens[1:])
        return score._replace(signature=score.signature.replace("|tok:none|", "|tok:t2t|"))
    if tokenize not in BLEU.TOKENIZERS:
        raise unknown("--tokenize", tokenize, ["t2t", *BLEU.TOKENIZERS])
    try:
        metric = BLEU(lowercase=lowercase, tokenize=tokenize)
    except (ImportError, OSError, RuntimeError) as error:
        raise UserError(f"--tokenize {tokenize}: {' '.join(str(error).split())}") from error
    return _score(metric, hypotheses, references)


def corpus_chrf(
    hypotheses: Sequence[str], *references: Sequence[str], lowercase: bool = False
) -> Score:
    """sacreBLEU's chrF2: character 6-grams, recall weighted twice."""
    from sacrebleu.metrics import CHRF

    _check_not_empty(hypotheses)
    return _score(CHRF(lowercase=lowercase), hypotheses, references)


def compound_split_bleu(
    hypotheses: Sequence[str], *references: Sequence[str], lowercase: bool = False
) -> Score:
    """BLEU over Moses' tokens with German compounds split at hyphens, as in papers of 2017.

    It does what tensor2tensor's get_ende_bleu.sh did with the hypotheses, to both sides:
    replace-unicode-punctuation, tokenizer -l de (escaping on, hyphens left alone), `rich-text` ->
    `rich ##AT##-##AT## text`, then multi-bleu, which smooths nothing. Usually above sacreBLEU, and
    not to be compared with it.
    """
    import sacremoses
    from sacrebleu.metrics import BLEU

    _check_not_empty(hypotheses)
    tokenizer = sacremoses.MosesTokenizer(lang="de")

    def tokens(lines):
        return [
            _split_compounds(tokenizer.tokenize(_ascii_punctuation(line), return_str=True))
            for line in lines
        ]

    # force: the lines are tokenised, as sacreBLEU would otherwise point out.
    metric = BLEU(lowercase=lowercase, tokenize="none", smooth_method="none", force=True)
    score = _score(metric, tokens(hypotheses), [tokens(lines) for lines in references])
    tokenizer_name = f"|tok:moses-de-sacremoses-{sacremoses.__version__}|compounds:split|"
    return score._replace(signature=score.signature.replace("|tok:none|", tokenizer_name))


def tensor2tensor_tokens(line: str) -> list[str]:
    """The tokens of which tensor2tensor's own BLEU was made (its `bleu_hook.bleu_tokenize`).

    As sacreBLEU's `intl` but for two things: a backslash is no punctuation, since it got lost in a
    character class, and only decimal digits keep punctuation to themselves, so `m²,` is three
    tokens. Letters and signs are those of this Python's Unicode tables.
    """
    for pattern, apart in _tensor2tensor_rules():
        line = pattern.sub(apart, line)
    return line.split()


@functools.cache
def _tensor2tensor_rules() -> list[tuple[re.Pattern, str]]:
    characters = {"P": [], "S": []}  # punctuation, signs
    for character in map(chr, range(sys.maxunicode + 1)):
        characters.get(unicodedata.category(character)[0], []).append(character)
    characters["P"].remove("\\")
    punctuation, signs = (f"[{re.escape(''.join(found))}]" for found in characters.values())
    return [
        (re.compile(rf"(\D)({punctuation})"), r"\1 \2 "),
        (re.compile(rf"({punctuation})(\D)"), r" \1 \2"),
        (re.compile(f"({signs})"), r" \1 "),
    ]


def _score(metric, hypotheses, references) -> Score:
    result = metric.corpus_score(hypotheses, references)
    return Score(result.score, str(result), str(metric.get_signature()))


def _check_not_empty(hypotheses) -> None:
    if not hypotheses:
        raise UserError("no lines to score; expected at least one")


# Moses' replace-unicode-punctuation.perl, rule by rule. It leaves German opening quotes (U+201E) as
# they are.
_PUNCTUATION = str.maketrans(
    "，、”“《》」「∶：；？！（）【】〈〉％～━’０１２３４５６７８９",
    ',,""""""::;?!()[]<>%~-\'0123456789',
) | {ord("…"): "..."}


def _ascii_punctuation(line: str) -> str:
    return re.sub("[。．] *", ". ", line).translate(_PUNCTUATION)


def _split_compounds(line: str) -> str:
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", line)
