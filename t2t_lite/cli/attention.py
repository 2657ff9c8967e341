"""t2t-attention: shows where a model looks, as a page to explore and as figures."""

import argparse
import contextlib
import difflib
import os
import sys
from collections.abc import Callable
from typing import NamedTuple

from t2t_lite import registry
from t2t_lite.attention import TITLES, Attention, Kind, labels
from t2t_lite.attention import words as words_of
from t2t_lite.cli import arguments
from t2t_lite.errors import UserError
from t2t_lite.files import one_line
from t2t_lite.output import writing
from t2t_lite.runtime import start_tensorflow

_PAGE = "attention.html"
_ABOUT = """\
The page is one HTML file that needs no network: kinds, layers and heads to choose, and lines from
the piece under the pointer to those that it looks at, each head in its colour. --png and --svg draw
a layer like Figures 3 to 5 of the paper.

kinds:
  encoder   where each piece of the input looks in the input
  decoder   where the decoder looks, as it writes a piece, in what it has read of its output;
            that begins with padding, for there is nothing yet
  cross     where the decoder looks in the input as it writes a piece of its output

example: t2t-attention --output_dir RUN --text "two hundred six" --output six.html
         t2t-attention --output_dir RUN --text "two hundred six" --svg six.svg --layer 2 --heads 1 3
"""


def parser() -> arguments.Parser:
    """The command's flags."""
    parser = arguments.Parser(
        "Shows where a trained model looks as it reads a text and writes its output.",
        epilog=_ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    arguments.add_runs(parser, required=False)
    help = "an export of t2t-exporter, DIR or DIR/<version>, instead of a run"
    add("--export_dir", metavar="DIR", help=help)
    add("--text", required=True, help="what the model reads, one line")
    help = "the output that it is made to write (default: its own translation)"
    add("--target", metavar="TEXT", help=help)
    help = f"the page to write (default: {_PAGE}, unless a figure is asked for); - is stdout"
    add("--output", metavar="FILE", help=help)
    help = "With what the page opens, and what the figures draw."
    group = parser.add_argument_group("choice", help)
    add = group.add_argument
    add("--kind", choices=list(TITLES), help="see below (default: encoder, if it has attention)")
    add("--layer", type=int, metavar="N", help="from 1 (default: the last but one)")
    add("--heads", type=int, nargs="+", metavar="N", help="from 1 (default: all)")
    group = parser.add_argument_group("figures", "They need matplotlib.")
    add = group.add_argument
    add("--png", metavar="FILE", help="a figure to write, as PNG")
    add("--svg", metavar="FILE", help="likewise, as SVG")
    help = "draw only the lines of these words, or sub-words, that look (default: of all)"
    add("--words", nargs="+", metavar="WORD", help=help)
    return parser


def show() -> None:
    """Runs the command."""
    args = parser().parse_args()
    text = one_line(args.text, "--text")
    target = args.target and one_line(args.target, "--target")
    if (args.output_dir is None) == (args.export_dir is None):
        raise UserError("expected either --output_dir RUN or --export_dir DIR")
    files = _files(args)
    with contextlib.ExitStack() as stack:
        outputs = {format: stack.enter_context(writing(file)) for format, file in files.items()}
        model = _export(args) if args.export_dir else _runs(args)
        target = model.translate(text) if target is None else target
        attention = model.attention(text, target)
        choice = _choice(attention.kinds(), args)
        facts = [("Input", text), ("Output", target), ("Model", model.name)]
        contents = [_content(format, attention, choice, facts) for format in outputs]
        arguments.log(f"{model.about}\noutput      {target}")
        for output, content in zip(outputs.values(), contents):
            output.write_bytes(content)
    for file in files.values():
        if file != "-":
            print(file)


class _Model(NamedTuple):
    """What the command needs of a model, run or export."""

    translate: Callable[[str], str]
    attention: Callable[[str, str], Attention]
    name: str
    about: str


def _runs(args) -> _Model:
    from t2t_lite.runs import Runs

    runs = Runs.open(args.output_dir, args.usr_dir, arguments.log)
    start_tensorflow()
    from t2t_lite.weights import described

    translator = runs.translator()
    return _Model(
        lambda text: translator.translate([text])[0][0].text,
        translator.attention,
        ", ".join(map(str, translator.weights)),
        described(translator.weights),
    )


def _export(args) -> _Model:
    start_tensorflow()
    from t2t_lite.serving.model import ServedModel
    from t2t_lite.serving.versions import Versions

    registry.load_plugins(args.usr_dir)
    versions = Versions(
        args.export_dir, lambda folder: ServedModel(folder, "", args.usr_dir), arguments.log
    )
    model = versions.newest()
    return _Model(
        lambda text: model("serving_default", [{"text": text}])[0]["text"],
        model.attention,
        str(model.folder),
        f"export      {model.folder}",
    )


def _files(args) -> dict[str, str]:
    """The files to write, by format. Raises UserError for what cannot be."""
    figures = {format: getattr(args, format) for format in ("png", "svg") if getattr(args, format)}
    if args.words and not figures:
        raise UserError("--words chooses what figures draw; expected --png or --svg with it")
    if figures:
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            raise UserError(
                "matplotlib is missing; expected an installation with "
                'pip install "t2t_lite[figures]"'
            ) from None
    page = {} if figures and args.output is None else {"html": args.output or _PAGE}
    files = page | figures
    if len(set(map(os.path.realpath, files.values()))) < len(files):
        raise UserError(f"{', '.join(files.values())}: the same file; expected different ones")
    return files


class _Choice(NamedTuple):
    """What is shown: the name of a kind, and numbers of layer, heads and rows, all from 0."""

    kind: str
    layer: int
    heads: list[int]
    rows: list[int] | None


def _choice(kinds: dict[str, Kind], args) -> _Choice:
    """What the flags choose. Raises UserError for what there is not."""
    name = args.kind or next(iter(kinds))
    if name not in kinds:
        raise UserError(f"--kind={name}: this model has none; expected one of {', '.join(kinds)}")
    layers, heads, *_ = kinds[name].weights.shape
    layer = max(layers - 1, 1) if args.layer is None else args.layer
    [layer] = _from_zero("--layer", [layer], layers)
    chosen = _from_zero("--heads", args.heads or range(1, heads + 1), heads)
    return _Choice(name, layer, chosen, args.words and _places(kinds[name], args.words))


def _content(format: str, attention: Attention, choice: _Choice, facts: list) -> bytes:
    """What a file of that format holds."""
    kind, layer, chosen, rows = choice
    if format == "html":
        from t2t_lite.visualization.page import page

        return page(attention, kind, layer, chosen, facts).encode()
    from t2t_lite.visualization.figure import figure

    shown = attention.kinds()[kind]
    layers, heads, *_ = shown.weights.shape
    numbers = ", ".join(str(head + 1) for head in chosen)
    which = f"all {heads} heads" if len(chosen) == heads else f"heads {numbers} of {heads}"
    title = f"{TITLES[kind]}\nlayer {layer + 1} of {layers}, {which}"
    return figure(shown, title, layer, chosen, rows, format)


def _from_zero(flag: str, numbers, most: int) -> list[int]:
    """Numbers that count from 1, as they count from 0, each once."""
    for number in numbers:
        if not 1 <= number <= most:
            raise UserError(f"{flag}={number}: expected 1 to {most}")
    return sorted({number - 1 for number in numbers})


def _places(kind: Kind, words: list[str]) -> list[int]:
    """The rows of all pieces that are one of the words, or part of one."""
    found, names = [], set()
    for place, (label, word) in enumerate(zip(labels(kind.rows), words_of(kind.rows))):
        own = {label.removeprefix("\u00b7"), word}
        names |= own
        if not own.isdisjoint(words):
            found.append(place)
    for word in words:
        if word not in names:
            near = difflib.get_close_matches(word, sorted(names), 3, 0.3) or sorted(names)[:3]
            raise UserError(f"--words: no {word!r} looks there; nearest: {', '.join(near)}")
    return found


def main() -> None:
    """The command t2t-attention."""
    sys.exit(arguments.run(show, "t2t-attention"))
