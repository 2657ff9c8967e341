"""The page of an attention, as a file, and in a headless Chromium."""

import base64
import dataclasses
import hashlib
import json
import re

import numpy as np
import pytest

from t2t_lite.errors import UserError
from t2t_lite.visualization import page as page_module
from t2t_lite.visualization.colours import head_colours
from t2t_lite.visualization.page import page

HOSTILE = "</script><script>window.hurt=1</script><img src=x onerror=window.hurt=2><!--&\"'\u2028"


def part(document: str, tag: str) -> str:
    """What stands in the last element of that tag."""
    return re.findall(f"<{tag}[^>]*>(.*?)</{tag}>", document, re.DOTALL)[-1]


def data_of(document: str) -> dict:
    return json.loads(re.search('id="data">(.*?)</script>', document, re.DOTALL)[1])


def test_it_holds_all_weights(attention):
    data = data_of(page(attention, "cross", 1, [0, 2]))
    assert data["start"] == {"kind": 2, "layer": 1, "heads": [0, 2]}
    for found, kind in zip(data["kinds"], attention.kinds().values(), strict=True):
        weights = np.reshape(found["weights"], kind.weights.shape) / data["scale"]
        np.testing.assert_allclose(weights, kind.weights, atol=0.5 / data["scale"] + 1e-9)
        assert found["colours"] == head_colours(3)


def test_it_asks_for_nothing_and_runs_its_own_script_alone(attention):
    document = page(attention, "encoder", 0, [0])
    assert set(re.findall(r"\w+://[^\"]*", document)) == {"http://www.w3.org/2000/svg"}  # a name
    assert re.findall('(?:src|href)="(.*?)"', document) == ["data:,"]
    [policy] = re.findall('content="(default-src .*?)"', document)
    for tag in "style", "script":
        digest = hashlib.sha256(part(document, tag).encode()).digest()
        assert f"{tag}-src 'sha256-{base64.b64encode(digest).decode()}'" in policy
    assert policy.startswith("default-src 'none'")


def test_hostile_text_is_only_text(attention):
    hostile = dataclasses.replace(attention, source_pieces=[HOSTILE] * 6)
    document = page(hostile, "encoder", 0, [0], [("Input", HOSTILE)])
    assert document.count("<script") == document.count("</script") == 2
    assert "<img" not in document and "<!--" not in document
    data = data_of(document)
    assert data["facts"] == [["Input", HOSTILE]] and data["kinds"][0]["rows"] == [HOSTILE] * 6


def test_too_much_for_a_page(attention, monkeypatch):
    monkeypatch.setattr(page_module, "MOST", 100)
    with pytest.raises(UserError, match="6 sub-words of input and 4 of output have 456 weights"):
        page(attention, "encoder", 0, [0])


class Page:
    """The page by what a user sees and does."""

    def __init__(self, browser, file):
        self.browser = browser
        browser.get_log("browser")  # what earlier pages left there
        browser.get(file.as_uri())

    def find(self, selector: str) -> list:
        return self.browser.find_elements("css selector", selector)

    def lines(self) -> list[tuple]:
        """(row, column, colour, opacity) of each line."""
        found = self.browser.execute_script(
            "return [...document.querySelectorAll('g:not([display=none]) line')].map((line) => "
            "['y1', 'y2', 'stroke', 'stroke-opacity'].map((name) => line.getAttribute(name)))"
        )
        return [(int(float(y1)), int(float(y2)), c, float(o)) for y1, y2, c, o in found]

    def point(self, element) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.browser).move_to_element(element).perform()

    def reading(self) -> str:
        return self.find("#reading")[0].text

    def press(self, *keys: str) -> None:
        for key in keys:
            self.browser.switch_to.active_element.send_keys(key)


@pytest.fixture
def shown(browser, attention, tmp_path):
    file = tmp_path / "page.html"
    facts = [("Input", "the snow melts"), ("Output", HOSTILE)]
    file.write_text(page(attention, "encoder", 1, range(3), facts), encoding="utf-8")
    yield Page(browser, file)
    assert browser.get_log("browser") == [] and browser.execute_script("return window.hurt") is None
    kinds = "['navigation', 'resource'].flatMap((kind) => performance.getEntriesByType(kind))"
    names = browser.execute_script(f"return {kinds}.map((entry) => entry.name)")
    assert {name.partition(":")[0] for name in names} <= {"file", "data"}


def expected(weights, head: int, row=None, column=None) -> set:
    """The lines of a piece, for one head."""
    colour = head_colours(3)[head]
    return {
        (r, c, colour, round(float(np.rint(weights[head, r, c] * 1e4) / 1e4), 3))
        for r, c in np.ndindex(weights.shape[1:])
        if row in (None, r) and column in (None, c) and np.rint(weights[head, r, c] * 1e4) >= 50
    }


def assert_lines(found, wanted):
    found, wanted = sorted(found), sorted(wanted)
    assert [line[:3] for line in found] == [line[:3] for line in wanted]
    np.testing.assert_allclose([x[3] for x in found], [x[3] for x in wanted], atol=1.1e-3)


def test_lines_of_the_piece_under_the_pointer(shown, attention):
    weights = attention.encoder[1]
    everything = shown.lines()
    shown.point(shown.find("#rows button")[2])
    wanted = set().union(*(expected(weights, head, row=2) for head in range(3)))
    assert_lines(shown.lines(), wanted)
    assert len(everything) > len(wanted)
    best = int(weights[:, 2].mean(axis=0).argmax())
    button = shown.find("#columns button")[best]
    share = f"{100 * weights[:, 2, best].mean():.1f} %"
    assert shown.reading().startswith(f"mel looks at {button.text} {share}")
    assert "gradient" in button.get_attribute("style")
    shown.point(shown.find("#columns button")[1])  # by which it is looked at
    assert_lines(
        shown.lines(), set().union(*(expected(weights, head, column=1) for head in range(3)))
    )
    shown.point(shown.find("h1")[0])
    assert shown.lines() == everything


def test_a_head_is_chosen(shown, attention):
    boxes = shown.find("#heads input")
    assert len(boxes) == 3 and all(box.is_selected() for box in boxes)
    boxes[0].click()
    boxes[2].click()
    assert {line[2] for line in shown.lines()} == {head_colours(3)[1]}
    shown.point(shown.find("#rows button")[0])
    assert_lines(shown.lines(), expected(attention.encoder[1], 1, row=0))
    shown.find("#none")[0].click()
    assert shown.lines() == []
    shown.find("#all")[0].click()
    assert {line[2] for line in shown.lines()} == set(head_colours(3))


def test_kinds_and_layers_are_chosen(shown, attention):
    shown.find("#none")[0].click()
    shown.find("#heads input")[1].click()
    texts = lambda selector: [found.text for found in shown.find(selector)]  # noqa: E731
    source = ["the", "snow", "mel", "\u00b7t", "\u00b7s", "</s>"]
    target = ["der", "Schnee", "schmilzt", "</s>"]
    assert texts("#rows button") == texts("#columns button") == source
    assert texts("#kind option") == [
        *("Encoder self-attention", "Decoder self-attention", "Decoder-encoder attention")
    ]
    assert texts("#layer option") == ["1 of 2", "2 of 2"]
    columns = source, ["<pad>", *target[:-1]], source
    for number, kind in enumerate((attention.encoder, attention.decoder, attention.weights)):
        shown.find("#kind option")[number].click()
        assert texts("#columns button") == columns[number]
        for layer in 0, 1:
            shown.find("#layer option")[layer].click()
            assert_lines(shown.lines(), expected(kind[layer], 1))
    assert texts("#rows button") == target


def test_by_keyboard(shown, attention):
    from selenium.webdriver.common.keys import Keys

    shown.find("#none")[0].send_keys(Keys.TAB, "")
    assert shown.reading().startswith("the looks at ")
    shown.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    assert shown.reading().startswith("mel looks at ")
    shown.press(Keys.ARROW_RIGHT)
    assert shown.reading().startswith("mel is looked at by ")
    kept = shown.lines()
    shown.press(Keys.ENTER)
    shown.browser.execute_script("document.activeElement.blur()")
    assert shown.lines() == kept and "pointed" in shown.find("#columns button")[2].get_attribute(
        "class"
    )
    shown.find("#columns button")[2].click()
    shown.browser.execute_script("document.activeElement.blur()")
    shown.point(shown.find("h1")[0])
    assert len(shown.lines()) > len(kept)


def test_a_long_sentence_says_what_is_left_out(browser, attention, tmp_path):
    pieces = [f"\u2581w{i}" for i in range(120)]
    even = np.full([2, 3, 120, 120], 1 / 120, np.float32)
    long = dataclasses.replace(attention, source_pieces=pieces, encoder=even)
    file = tmp_path / "long.html"
    file.write_text(page(long, "encoder", 0, range(3)), encoding="utf-8")
    browser.set_window_size(500, 900)
    found = Page(browser, file)
    assert len(found.lines()) == 3000
    note = f"{3 * 120 * 120 - 3000} weaker ones are left out"
    assert note in found.find("#note")[0].text
    widths = "return [document.documentElement.scrollWidth, innerWidth]"
    wide, window = browser.execute_script(widths)
    browser.set_window_size(1100, 1000)
    assert wide <= window
