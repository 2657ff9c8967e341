"""The page, in a headless Chromium, on servers of untrained models."""

import json
import random
import re

import numpy as np
import pytest
from server_process import started

pytest.importorskip("selenium", reason="no selenium")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

LONG = "nobody on board sees the snow on far roofs " * 5
HOSTILE = (
    "<script>window.hurt=1</script> <img src=x onerror=window.hurt=2> "
    "<svg/onload=window.hurt=3>&amp;\"'"
)
SECONDS = 240  # on a busy machine
pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def translating(translator_export):
    """The address of a server of the translator, with low limits."""
    limits = "--max_line_length", 400, "--max_body_bytes", 5000
    with started(translator_export.folder, *limits) as (_, port):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def parsing(parser_export):
    """The address of a server of the parser."""
    with started(parser_export.folder) as (_, port):
        yield f"http://127.0.0.1:{port}"


class Page:
    """The page of a server, by what a user sees and does."""

    def __init__(self, browser, address: str):
        self.browser = browser
        browser.get_log("browser")  # what earlier pages left there
        browser.get(address)
        self.wait()

    def wait(self) -> None:
        """Until all answers are there."""
        idle = "return document.querySelector('main').ariaBusy === 'false'"
        WebDriverWait(self.browser, SECONDS, 0.05).until(
            lambda browser: browser.execute_script(idle)
        )

    def run(self, script: str, *arguments):
        return self.browser.execute_script(script, *arguments)

    def find(self, selector: str):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        """What is to be seen."""
        return self.find(selector)[0].text

    def texts(self, selector: str) -> list[str]:
        """Also what only a screen reader reads."""
        return self.run(
            "return [...document.querySelectorAll(arguments[0])].map((found) => found.textContent)",
            selector,
        )

    def send(self, text: str) -> None:
        [source] = self.find("#source")
        self.run("arguments[0].value = arguments[1]", source, text)
        source.send_keys(Keys.ENTER)
        self.wait()

    def choose(self, selector: str, number: int) -> None:
        self.find(f"{selector} input")[number].click()
        self.wait()

    def heat_map(self) -> tuple[list[str], list[str], np.ndarray]:
        """(words of the rows, words of the columns, percentages [rows, columns])."""
        rows, columns = self.texts("#heat-map tbody th"), self.texts("#heat-map thead th")
        values = [float(text.removesuffix(" %")) for text in self.texts("#heat-map tbody td")]
        return rows, columns, np.reshape(values, [len(rows), len(columns)])

    def answer_with(self, status: int, message: dict, headers: dict | None = None) -> None:
        """From now on all requests get this answer, which no server of ours would give here."""
        answer = "new Response(arguments[1], { status: arguments[0], headers: arguments[2] })"
        self.run(f"window.fetch = async () => {answer}", status, json.dumps(message), headers or {})

    def origins(self) -> set[str]:
        """Where the page and all that it asked for came from."""
        kinds = "['navigation', 'resource'].flatMap((kind) => performance.getEntriesByType(kind))"
        return set(self.run(f"return {kinds}.map((entry) => new URL(entry.name).origin)"))


@pytest.fixture
def page(browser, translating):
    return Page(browser, translating)


@pytest.fixture(scope="module")
def line(translator):
    """A line to which even an untrained model gives three outputs of several words."""
    _, model = translator
    lines = [" ".join(random.Random(i).choices(LONG.split(), k=6)) for i in range(200)]
    for line, found in zip(lines, model("n_best", [{"text": line} for line in lines])):
        if len(found["text"]) == 3 and all(
            len(text.split(" ")) == len(text.split()) > 1 for text in found["text"]
        ):
            return line


def hypotheses(model, line: str) -> dict[str, list]:
    [row] = model("n_best", [{"text": line}])
    return row


def test_a_translation_with_its_alternatives_and_where_the_model_looked(
    page, translating, translator, line
):
    _, model = translator
    wanted = hypotheses(model, line)
    page.send(line)
    assert page.texts("#output") == wanted["text"][:1] and page.text("#status").startswith(
        "1 line in "
    )
    assert (
        page.text("#facts").split()
        == "version 1 problem spelled_numbers_ende set none beam size 3 alpha 0.8".split()
    )
    assert page.texts("#hypotheses label") == wanted["text"]
    for column, name in (2, "score"), (3, "log_prob"):
        shown = [
            float(text.replace("\u2212", "-"))
            for text in page.texts(f"#hypotheses td:nth-child({column})")
        ]
        np.testing.assert_allclose(shown, wanted[name], atol=6e-4)
    for number, text in enumerate(wanted["text"]):
        page.choose("#hypotheses", number)
        rows, columns, values = page.heat_map()
        assert rows == text.split() and columns == [*line.split(), "end"]
        np.testing.assert_allclose(values.sum(1), 100, atol=1)
    assert (
        page.run("return document.getElementById('layer').value")
        == str(model.metadata["attention_layer"])
        == "0"
    )
    page.find("#layer option")[1].click()
    rows, _, other = page.heat_map()
    assert rows == text.split() and abs(other - values).max() > 1
    assert not page.find("#tree")[0].is_displayed() and not page.find("#error")[0].is_displayed()
    assert page.origins() == {translating} and page.browser.get_log("browser") == []


def test_pieces_are_joined_into_words(page, translator):
    """The sum over the pieces of an input word, the mean over those of an output word."""
    _, model = translator
    text = "far  roofs \U0001f600"
    number, target = next(
        (i, target) for i, target in enumerate(hypotheses(model, text)["text"]) if target.strip()
    )
    page.send(text)
    page.choose("#hypotheses", number)
    [answer] = model("attention", [{"text": text, "target": target}])
    starts = [
        [
            i
            for i, piece in enumerate(pieces)
            if i == 0 or piece == "</s>" or piece[0] == "\u2581" != pieces[i - 1]
        ]
        for pieces in (answer["target_pieces"], answer["source_pieces"])
    ]
    sums = np.add.reduceat(answer["attention"][0], starts[1], axis=1)
    means = [part.mean(0) for part in np.split(sums, starts[0][1:])][
        :-1
    ]  # but for the end of the output
    rows, columns, values = page.heat_map()
    assert columns == ["far", "roofs", "\U0001f600", "end"] and rows == [
        word for word in target.split(" ") if word
    ]
    np.testing.assert_allclose(values, 100 * np.array(means), atol=0.06)


def joined(pieces: list[str], weights: np.ndarray, axis: int) -> np.ndarray:
    """Sums over the pieces of each word; </s> and <pad> are words of their own."""
    starts = [
        i
        for i, piece in enumerate(pieces)
        if i == 0 or piece == "</s>" or piece[0] == "\u2581" or pieces[i - 1] == "<pad>"
    ]
    return np.add.reduceat(weights, starts, axis=axis)


def test_every_kind_and_head(page, translator, line):
    _, model = translator
    page.send(line)
    target = page.texts("#output")[0]
    [answer] = model("attention_heads", [{"text": line, "target": target}])
    source, written = answer["source_pieces"], answer["target_pieces"]
    sides = {
        "cross": (written, source, [*line.split(), "end"]),
        "encoder": (source, source, [*line.split(), "end"]),
        "decoder": (written, ["<pad>", *written[:-1]], ["start", *target.split()]),
    }
    assert [option.text for option in page.find("#head option")] == ["mean of all", "1", "2"]
    for kind, (rows, columns, words) in sides.items():
        page.find(f"#kind option[value={kind}]")[0].click()
        page.wait()
        layers = np.array(answer[kind])
        assert len(page.find("#layer option")) == len(layers)
        for layer, head in np.ndindex(len(layers), 3):
            page.find("#layer option")[layer].click()
            page.find("#head option")[head].click()
            page.wait()
            weights = layers[layer].mean(0) if head == 0 else layers[layer][head - 1]
            sums = joined(columns, weights, 1)
            wanted = joined(rows, sums, 0) / joined(rows, np.ones([len(rows), 1]), 0)
            _, shown, values = page.heat_map()
            assert shown == words
            np.testing.assert_allclose(values, 100 * wanted[: len(values)], atol=0.2)
    assert page.browser.get_log("browser") == []


def test_pieces_of_tensor2tensors_vocabularies(page, line):
    answer = {
        "text": ["Schnee, ja"], "score": [-1], "log_prob": [-2],
        "source_pieces": ["snow", "flake_", ", _", "on_", "<EOS>"],
        "target_pieces": ["constructor_", ", _", "j", "a_", "<EOS>_"],
        "attention": [np.full([5, 5], 0.2).tolist()] * 2,
    }  # fmt: skip
    page.answer_with(200, {"predictions": [answer]})
    page.send(line)
    rows, columns, values = page.heat_map()
    assert rows == ["constructor", ", ", "ja"] and columns == ["snowflake", ", ", "on", "end"]
    np.testing.assert_allclose(values, [[40, 20, 20, 20]] * 3)


def test_several_lines_each_with_its_alternatives(page, translator, line):
    _, model = translator
    page.send(f"\n{line}\n \u3000\n{line} {line}\n")
    once, twice = (
        [text or "(empty)" for text in hypotheses(model, text)["text"]]
        for text in (line, f"{line} {line}")
    )
    assert (
        page.texts("#output li") == ["", once[0], "", twice[0]]
        and page.texts("#hypotheses label") == once
    )
    page.choose("#output", 1)
    assert page.texts("#hypotheses label") == twice


def test_the_heat_map_by_keyboard(page, line):
    page.send(line)
    page.find("#layer")[0].send_keys(Keys.TAB)

    def read(key: str) -> str:
        page.browser.switch_to.active_element.send_keys(key)
        return page.text("#reading")

    (first, second, *_), (one, two, *_), values = page.heat_map()
    assert page.text("#reading") == f"{first} \u2190 {one}: {values[0, 0]:.1f} %"
    assert read(Keys.ARROW_RIGHT) == f"{first} \u2190 {two}: {values[0, 1]:.1f} %"
    assert (
        read(Keys.ARROW_DOWN)
        == read(Keys.ARROW_UP + Keys.ARROW_DOWN)
        == f"{second} \u2190 {two}: {values[1, 1]:.1f} %"
    )
    assert read(Keys.ARROW_LEFT * 5) == f"{second} \u2190 {one}: {values[1, 0]:.1f} %"
    assert page.texts("#heat-map .read") == [one, second]


def test_hostile_text_is_only_text(page, translating, line):
    page.send(HOSTILE)
    assert page.heat_map()[1] == [*HOSTILE.split(), "end"]
    page.answer_with(
        200, {"predictions": [{"text": [HOSTILE] * 2, "score": [-1] * 2, "log_prob": [-2] * 2}]}
    )
    page.send(line)  # the same answer for attention, which it is not
    assert page.text("#output") == HOSTILE and page.texts("#hypotheses label") == [HOSTILE] * 2
    assert page.text("#error").startswith("The server's answer is not understood: ")
    page.answer_with(418, {"error": HOSTILE})
    page.send(line)
    assert page.text("#error") == f"Refused (418): {HOSTILE}"
    assert (
        page.find("main :is(script, svg, img[src='x'])") == []
        and page.run("return window.hurt") is None
    )
    assert page.origins() == {translating}


def test_errors_are_a_line_and_the_page_goes_on(page, line):
    def shown() -> str:
        assert not any(
            part.is_displayed() for part in page.find("#output, #alternatives, #attention, #tree")
        )
        return page.text("#error")

    page.send(line)
    page.send(LONG + LONG)
    assert shown() == "Refused (400): instances[0].text: 430 characters; expected at most 400"
    page.send("\n".join([LONG] * 30))
    assert shown() == "Too much text: the body is too large; expected at most 5,000 bytes"
    page.browser.set_network_conditions(offline=True, latency=0, throughput=-1)
    page.send(line)
    assert shown() == "The server cannot be reached. Is it still running?"
    page.browser.delete_network_conditions()
    page.send(line)
    assert (
        page.text("#output")
        and page.find("#attention")[0].is_displayed()
        and not page.find("#error")[0].is_displayed()
    )
    page.answer_with(503, {"error": "too many lines wait; try again later"}, {"Retry-After": "1"})
    page.send(line)
    assert shown() == "The server is busy, try again in 1 s: too many lines wait; try again later"
    page.answer_with(503, {"error": "the server stops"})
    page.send(line)
    assert shown() == "The server is not ready: the server stops"


def test_trees(browser, parsing, parser):
    _, model = parser
    line = "she slept ."
    trees = hypotheses(model, line)["text"]
    assert len(trees) > 1
    page = Page(browser, parsing)
    assert page.text("#send") == "Parse"
    page.send(line)
    assert page.text("#output") == trees[0] and page.texts("#hypotheses label") == trees
    [picture] = page.find("#picture")
    for number, tree in enumerate(trees):
        page.choose("#hypotheses", number)
        assert picture.is_displayed() and picture.get_attribute("alt") == tree
        size = (
            "const [image] = arguments; await image.decode(); "
            "return [image.naturalWidth, image.naturalHeight]"
        )
        width, height = re.match(
            r'<svg [^>]*width="([\d.]+)" height="([\d.]+)"', model.problem.svg(tree)
        ).groups()
        np.testing.assert_allclose(
            page.run(f"return (async () => {{ {size} }})()", picture),
            [float(width), float(height)],
            atol=1,
        )
        rows, columns, values = page.heat_map()
        assert rows == model.problem.target_text(tree).split() and columns == [*line.split(), "end"]
        np.testing.assert_allclose(values.sum(1), 100, atol=1)
    assert page.origins() == {parsing} and page.browser.get_log("browser") == []
