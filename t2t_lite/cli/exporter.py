"""t2t-exporter: writes a SavedModel from string to string, or a model for CTranslate2."""

import argparse
import sys

from t2t_lite.cli import arguments
from t2t_lite.errors import UserError
from t2t_lite.runtime import start_tensorflow

_FORMATS = """\
--format=saved_model: what DIR/<version>/ holds, for TensorFlow and tensorflow_text alone (import
both, then tf.saved_model.load):
  serving_default  text [batch] -> text, score, log_prob [batch]
  n_best           text [batch] -> text, score, log_prob [batch, n], best first
  ids              ids [batch, length] -> ids [batch, length], score, log_prob [batch];
                   each row ends in EOS (1), then 0
  score            text, target [batch] -> log_prob, score [batch]
  attention        text, target [batch] -> attention [batch, layers, target, source],
                   source_pieces, target_pieces
  attention_heads  text, target [batch] -> cross [batch, layers, heads, target, source],
                   encoder [..., source, source], decoder [..., target, target], and the pieces
  metadata         -> metadata, the text of assets.extra/metadata.json
Texts are UTF-8; others are an error that names them. A blank text has an empty output with score
0. A parsing model gives tree symbols; the tree is what
t2t_lite.export.metadata.problem(metadata).output_text(text, line) makes of them.

--format=ctranslate2: a model for ctranslate2.Translator, tokens being the pieces of vocab.model,
which lies beside it. metadata.json has the arguments for translate_batch; docs/exporting.md shows
how to rank its hypotheses as t2t-decoder does.

example: t2t-exporter --output_dir RUN --export_dir export
"""
_QUANTIZATIONS = ("int8", "int8_float16", "int16", "float16")


def parser() -> arguments.Parser:
    """The command's flags."""
    parser = arguments.Parser(
        "Writes the averaged, else best, else latest checkpoint of a run as a SavedModel, "
        "vocabulary and search inside, or for CTranslate2.",
        epilog=_FORMATS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        conflict_handler="resolve",  # --version means the model's here
    )
    add = parser.add_argument
    arguments.add_runs(parser)
    add("--export_dir", metavar="DIR", required=True, help="DIR/<version>/ is written")
    help = "default: one more than the largest in DIR, from 1"
    add("--version", type=int, metavar="N", help=help)
    formats = ["saved_model", "ctranslate2"]
    help = "see below (default: saved_model)"
    add("--format", choices=formats, default="saved_model", help=help)
    help = "of ctranslate2's weights (default: none, float32)"
    add("--quantization", choices=_QUANTIZATIONS, help=help)
    help = "Fixed in the export. The defaults are the problem's."
    group = parser.add_argument_group("search", help)
    arguments.add_search(group)
    help = "outputs of the signature n_best (default: the beam size)"
    group.add_argument("--n_best", type=int, metavar="N", help=help)
    return parser


def export() -> None:
    """Runs the command."""
    args = parser().parse_args()
    other = "quantization" if args.format == "saved_model" else "n_best"
    if getattr(args, other) is not None:
        raise UserError(f"--{other}={getattr(args, other)}: not for --format={args.format}")
    from t2t_lite.runs import Runs
    from t2t_lite.weights import described

    runs = Runs.open(args.output_dir, args.usr_dir, arguments.log)
    start_tensorflow()
    options = {name: getattr(args, name) for name in ("beam_size", "alpha", "extra_length")}
    if args.format == "saved_model":
        from t2t_lite.export import saved_model as module

        options["n_best"] = args.n_best
    else:
        from t2t_lite.export import ctranslate2 as module

        options["quantization"] = args.quantization
    arguments.log(described(runs.weights))
    folder = module.export(
        runs, args.export_dir, args.version, **options, constrained=not args.unconstrained
    )
    arguments.log("checked against the decoder in a process without t2t_lite")
    print(folder)


def main() -> None:
    """The command t2t-exporter."""
    sys.exit(arguments.run(export, "t2t-exporter"))
