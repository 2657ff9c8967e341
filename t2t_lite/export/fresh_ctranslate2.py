"""Runs a CTranslate2 export as a stranger would, in a process that cannot import t2t_lite.

    python -P fresh_ctranslate2.py DIR/VERSION < texts.json     # a list of strings, none of them
    blank

Prints {"pieces": [...], "log_prob": [...]}: each text's greedy translation, EOS left out, and its
log probability, EOS included.
"""

import json
import sys
from pathlib import Path

sys.modules["t2t_lite"] = None  # an import of it fails


def main() -> None:
    """Runs the script."""
    import ctranslate2
    import sentencepiece

    folder = Path(sys.argv[1])
    about = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))
    options = about["translate_batch"] | {
        "beam_size": 1,
        "num_hypotheses": 1,
        "return_end_token": False,
    }
    processor = sentencepiece.SentencePieceProcessor(
        str(folder / about["vocabularies"]["source"]["file"])
    )
    translator = ctranslate2.Translator(
        str(folder), intra_threads=1
    )  # several wait for each other beside other work
    answer = {"pieces": [], "log_prob": []}
    for text in json.load(sys.stdin):
        source = processor.encode(text, out_type=str)
        limit = len(source) + 1 + about["extra_length"]
        [result] = translator.translate_batch([source], max_decoding_length=limit, **options)
        [scored] = translator.score_batch([source], result.hypotheses, max_input_length=0)
        answer["pieces"] += result.hypotheses
        answer["log_prob"].append(sum(scored.log_probs))
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
