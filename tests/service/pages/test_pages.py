"""The pages of the service, driven in headless Chromium against a real process, as a person would."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx
import pytest

from onebit.experiments.report import style
from onebit.service.tokens import SCOPES, Tokens
from tests.experiments.report.browser import Browser, chromium
from tests.service.driving import PATIENCE_S, decided, new_task, run, service_in, without_snapshots
from tests.service.site import process_in
from tests.service.store.test_bad_records import damage
from tests.slow import Test


def needs_chromium(test: Test) -> Test:
    """Mark a test as one that opens a browser, and so is of the longer tier."""
    for mark in (
        pytest.mark.long,
        pytest.mark.skipif(chromium() is None, reason="Chromium is not installed: make browser"),
    ):
        test = mark(test)
    return test


PAGES = files("onebit.service.pages")
PHONE = 360
FINGER = 44
NASTY = ["<b>bold</b>", "עברית", "'; DROP TABLE tasks; --", "long " + "m" * 195, "\u202eturned", "a&amp;b"]
IMAGE = {"kind": "image", "width": 6, "height": 4, "lowest": -1, "highest": 3}
NETWORK_ERROR = re.compile(r"Failed to load resource")


def one(selector: str) -> str:
    return f"document.querySelector({json.dumps(selector)})"


def text_of(selector: str) -> str:
    """The text of an element, with ordinary spaces: pages have others where no line should break, as in 95 %."""
    return f"{one(selector)}.textContent.replaceAll('\\u00a0', ' ')"


def named(selector: str, text: str) -> str:
    """The element among those of a selector that has this text."""
    return f"[...document.querySelectorAll({json.dumps(selector)})].find(e => e.textContent === {json.dumps(text)})"


def shown(selector: str) -> str:
    return f"(e => !!e && e.checkVisibility())({one(selector)})"


@dataclass
class Reader:
    """A person at a browser, whose token may do everything."""

    browser: Browser
    url: str
    token: str
    folder: Path

    def ask(self, method: str, path: str, body: object = None) -> Any:
        headers = {"authorization": f"Bearer {self.token}"}
        answer = httpx.request(method, self.url + path, headers=headers, json=body, timeout=PATIENCE_S)
        assert answer.is_success, answer.text
        return answer.json()

    def new_task(self, name: str, **more: Any) -> None:
        plain = {
            "name": name,
            "classes": ["a", "b"],
            "features": {"kind": "numbers", "size": 2},
            "learner": "banditron",
        }
        self.ask("POST", "/v1/tasks", plain | more)

    def become(self, token: str) -> None:
        self.browser.send("Network.setCookie", name="onebit_token", value=token, url=self.url)

    def visit(self, path: str) -> None:
        self.browser.visit(self.url + path)

    def fill(self, **values: str) -> None:
        """Types into the form that is open."""
        for name, value in values.items():
            place = one(f"dialog [name={name}]")
            self.browser.run(f"{place}.tagName === 'SELECT' ? ({place}.value = {json.dumps(value)}) : {place}.select()")
            if self.browser.run(f"{place}.tagName !== 'SELECT'"):
                self.browser.run(f"{place}.focus()")
                self.browser.send("Input.insertText", text=value)
            self.browser.run(f"{place}.dispatchEvent(new Event('input', {{bubbles: true}}))")

    def send_form(self) -> None:
        self.browser.click(one("dialog [type=submit]"))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    folder = tmp_path_factory.mktemp("service")
    token = Tokens(folder / "tokens.json").create(list(SCOPES))
    with process_in(folder) as process, Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield Reader(browser, process.url, token, folder)


@pytest.fixture
def reader(service: Reader) -> Iterator[Reader]:
    """Logged in, with a wide window; afterwards nothing may have been complained about, or asked of another host."""
    browser = service.browser
    browser.send("Network.clearBrowserCookies")
    browser.send("Emulation.setDeviceMetricsOverride", width=1280, height=900, deviceScaleFactor=1, mobile=False)
    browser.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    service.become(service.token)
    browser.send("Page.navigate", url="about:blank")  # else a page that is still open asks a service that has ended
    browser.settle()
    browser.complaints.clear()
    browser.requests.clear()
    yield service
    browser.settle()
    assert browser.complaints == []
    foreign = [url for url in browser.requests if not url.startswith((service.url, "data:", "about:"))]
    assert foreign == []


def refusals(browser: Browser) -> int:
    """How many answers that were errors the console told of; they are then forgotten."""
    found = [one for one in browser.complaints if NETWORK_ERROR.search(one)]
    browser.complaints[:] = [one for one in browser.complaints if one not in found]
    return len(found)


@needs_chromium
def test_logging_in_and_out(reader: Reader) -> None:
    browser = reader.browser
    browser.send("Network.clearBrowserCookies")

    def enter(token: str) -> None:
        browser.run(f"{one('#token')}.value = ''")
        browser.send("Input.insertText", text=token)
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if kind == "keyDown" else {}
            browser.send("Input.dispatchKeyEvent", type=kind, key="Enter", windowsVirtualKeyCode=13, **text)

    reader.visit("/play/digits")
    assert browser.run("document.activeElement.id") == "token"
    enter("onebit_000000000000_wrong")
    browser.until(f"{text_of('#problem')}.includes('does not recognise this token')")
    enter("two words")
    browser.until(f"{text_of('#problem')}.includes('no spaces')")
    enter(reader.token)
    browser.until(f"!!{one('#log-out')}")
    assert browser.run("location.pathname") == "/play/digits"
    assert browser.run("document.cookie") == ""  # no script can read the token
    browser.run(f"{one('#log-out')}.click()")
    browser.until(f"!!{one('#token')}")
    assert refusals(browser) == 3  # the page, the wrong token, and the page after logging out


@needs_chromium
def test_a_task_is_made_changed_and_deleted(reader: Reader) -> None:
    browser = reader.browser
    reader.visit("/")
    browser.click(one("#create"))
    browser.until(f"!!{one('dialog')}")
    reader.send_form()
    assert browser.run("document.activeElement.name") == "name"
    reader.fill(name="bad name", classes="cat\ndog\n\n 鳥 \n", size="3", learner="confidit", parameters="nonsense=1")
    reader.send_form()
    browser.until(f"{text_of('dialog [id$=-name-problem]')}.includes('bad name')")
    assert browser.run(f"{one('dialog [name=name]')}.ariaInvalid") == "true"
    reader.fill(name="animals")
    reader.send_form()
    browser.until("[...document.querySelectorAll('dialog .problem')].some(e => e.textContent.includes('nonsense'))")
    assert refusals(browser) == 2
    reader.fill(parameters="", deadline_s="60", silence="wrong")
    reader.send_form()
    browser.until(f"!{one('dialog')} && {text_of('#task-name')} === 'animals' && {shown('#figures')}")
    assert browser.run("location.hash") == "#task=animals"
    made = reader.ask("GET", "/v1/tasks/animals")
    assert made["classes"] == ["cat", "dog", "鳥"]
    assert (made["learner"], made["deadline_s"], made["silence"]) == ("confidit", 60, "wrong")

    browser.click(named("#task-tools button", "Settings"))
    reader.fill(mode="log-only")
    reader.send_form()
    browser.until(f"{text_of('#task-facts')}.includes('log-only mode')")
    browser.click(named("#task-tools button", "Add classes"))
    reader.fill(add_classes="owl")
    reader.send_form()
    browser.until(f"{text_of('#task-facts')}.includes('4 classes')")
    browser.click(named("#task-tools button", "Switch learner"))
    browser.until(f"!!{one('dialog')}")
    reader.fill(learner="banditron")
    reader.send_form()
    browser.until(f"{text_of('#state')}.includes('banditron') && {one('#training')}.hidden")
    assert reader.ask("GET", "/v1/tasks/animals")["generation"] == 2

    browser.click(named("#task-tools button", "Delete"))
    browser.click(named("dialog button", "Cancel"))
    assert "animals" in [task["name"] for task in reader.ask("GET", "/v1/tasks")["tasks"]]
    browser.click(named("#task-tools button", "Delete"))
    reader.send_form()
    browser.until(f"{text_of('#news')} === 'animals has been deleted.'")
    browser.until(f"!{shown('#task')} || {text_of('#task-name')} !== 'animals'")
    assert "animals" not in [task["name"] for task in reader.ask("GET", "/v1/tasks")["tasks"]]


@needs_chromium
def test_twenty_rounds_of_digits(reader: Reader) -> None:
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    browser = reader.browser
    reader.visit("/play/digits")
    browser.until(shown("#message button"))
    browser.click(one("#message button"))
    wrong = 0
    for round_ in range(20):
        browser.until(f"{one('#right')}.ariaDisabled === 'false'")
        right = browser.run(f"{text_of('#guess')} === {text_of('#truth-text')}")
        wrong += not right
        if round_ < 10:
            browser.click(one("#right" if right else "#wrong"))
        else:
            key, code = (
                [("ArrowRight", 39), ("r", 82)][round_ % 2] if right else [("ArrowLeft", 37), ("w", 87)][round_ % 2]
            )
            browser.key(key, code)
        browser.until(f"{text_of('#result')}.startsWith('Round {round_ + 1}:')")
    assert browser.run(text_of("#result")) == f"Round 20: error {5 * wrong:.1f} %."
    rounds, over_all, recent = browser.run(f"{one('#curve .plot')}.uplot.data")
    assert rounds == list(range(1, 21))
    assert over_all[-1] == recent[-1] == wrong / 20
    stats = reader.ask("GET", "/v1/tasks/digits/stats")
    assert (stats["feedback"], stats["right"]) == (20, 20 - wrong)
    assert len(set(browser.run(f"{DRAWN}({one('#item canvas')})"))) > 2  # shades of grey
    assert browser.run(f"{one('#curve canvas')}.width") > 0

    browser.until(f"{one('#right')}.ariaDisabled === 'false'")
    browser.click(one("#auto"))
    browser.until(f"{text_of('#auto-text')}.includes('giving the feedback for you')")
    takes = "getComputedStyle(document.querySelector('#chances .bar span')).transitionDuration"
    assert browser.run(takes) == "0s"  # bars that move slowly would lag behind the numbers
    browser.click(one("#right"))  # not now
    browser.until(f"{text_of('#result')}.startsWith('Round 30:')")
    browser.click(one("#auto"))
    browser.until(f"{text_of('#auto-text')}.includes('your turn')")
    assert browser.run(takes) != "0s"
    curve = browser.run(f"{one('#curve .plot')}.uplot.data")
    played = len(curve[0])
    logged = reader.ask("GET", "/v1/tasks/digits/decisions?limit=200")["decisions"]
    assert 30 <= played == sum(decision["right"] is not None for decision in logged) < 120

    reader.visit("/play/digits")
    browser.until(f"{one('#right')}.ariaDisabled === 'false'")
    assert browser.run(f"{one('#curve .plot')}.uplot.data") == curve, "a reload keeps it"
    assert browser.run(text_of("#result")).startswith(f"Round {played}: error ")
    assert browser.run(text_of("#chances-title")) == "Chance of being played"
    assert "not its confidence" in browser.run(text_of("#chances-note"))
    assert re.fullmatch(r"Confidence \d+\.\d+ %\.", browser.run(text_of("#confidence")))
    labels = browser.run(f"{one('#curve .plot')}.uplot.axes.map(axis => axis.label)")
    assert labels == ["rounds", "error"]
    browser.click(one("#restart"))
    assert browser.run(f"{one('#curve .plot')}.uplot.data") == [[], [], []]
    reader.visit("/play/digits")
    browser.until(f"{one('#right')}.ariaDisabled === 'false'")
    assert not browser.run(f"!!{one('#curve .plot')}.uplot"), "and what was begun anew is gone"


@needs_chromium
def test_a_task_that_is_made_anew_begins_with_an_empty_curve(reader: Reader) -> None:
    browser = reader.browser
    reader.visit("/")
    reader.new_task("again", features={"kind": "numbers", "size": 24}, display=IMAGE)
    created = reader.ask("GET", "/v1/tasks/again")["created"]
    for when, rounds in ((created - 60, 0), (created, 3)):
        browser.run(f"sessionStorage.setItem('onebit-play-again-{when}', '011')")
        reader.visit("/play/again")
        browser.until(shown("#pad"))
        assert browser.run(f"{one('#curve .plot')}.uplot?.data[0].length ?? 0") == rounds


DRAWN = "(c => Array.from(c.getContext('2d').getImageData(0, 0, c.width, c.height).data).filter((_, i) => i % 4 === 0))"


@needs_chromium
def test_playing_with_a_drawing(reader: Reader) -> None:
    browser = reader.browser
    reader.new_task("drawn", features={"kind": "numbers", "size": 24}, display=IMAGE)
    reader.visit("/play/drawn")
    browser.until(shown("#pad"))
    browser.click(named("#input-tools button", "Guess"))  # nothing is drawn yet
    left, top, width, height = browser.place(one("#pad"))
    across = [(left + width * share, top + height * 3.5 / 4) for share in (0.05, 0.95)]
    browser.mouse("mousePressed", *across[0])
    browser.send(
        "Input.dispatchMouseEvent", type="mouseMoved", x=across[1][0], y=across[1][1], button="left", buttons=1
    )
    browser.mouse("mouseReleased", *across[1])
    browser.run(f"{one('#pad')}.focus()")
    for key, code, text in (("ArrowRight", 39, ""), ("ArrowDown", 40, ""), (" ", 32, " ")):
        browser.key(key, code, text)
    assert browser.run(text_of("#speak")) == "row 2, column 2, dark"
    browser.click(named("#input-tools button", "Guess"))
    browser.until(f"{one('#right')}.ariaDisabled === 'false'")
    (decision,) = reader.ask("GET", "/v1/tasks/drawn/decisions")["decisions"]
    assert decision["label"] == browser.run(text_of("#guess"))
    x = decision["x"]
    assert x[7] == IMAGE["highest"]
    assert x[:7] + x[8:12] == [IMAGE["lowest"]] * 11
    assert max(x[12:18]) < 0  # a line is a little wider than a pixel
    assert min(x[18:]) > 0
    browser.click(one("#wrong"))
    browser.until(f"{text_of('#result')} === 'Round 1: error 100.0 %.'")


@needs_chromium
def test_playing_with_a_text_and_what_cannot_be_played(reader: Reader) -> None:
    browser = reader.browser
    reader.new_task("letters", features={"kind": "text"}, classes=NASTY)
    reader.visit("/play/letters")
    browser.until("document.activeElement.tagName === 'TEXTAREA'")
    browser.send("Input.insertText", text="<i>rw</i> right")  # neither letter answers while one writes
    browser.click(named("#input-tools button", "Guess"))
    browser.until(f"{one('#right')}.ariaDisabled === 'false'")
    (decision,) = reader.ask("GET", "/v1/tasks/letters/decisions")["decisions"]
    assert decision["x"] == "<i>rw</i> right"
    assert decision["label"] == browser.run(text_of("#guess"))
    assert browser.run("[...document.querySelectorAll('#chances .name')].map(e => e.textContent)") == NASTY
    browser.click(one("#why summary"))
    browser.until(f"{text_of('#why')}.includes('may have changed since the decision')")
    assert "No feature favours either class." in browser.run(text_of("#why"))
    browser.click(one("#right"))
    browser.until(f"{text_of('#result')} === 'Round 1: error 0.0 %.'")
    assert not browser.run(f"{one('#why details')}.open")

    reader.visit("/#task=letters")
    browser.until(shown("#last .why summary"))
    browser.until("document.querySelector('#last .feedback').textContent === 'right'")
    browser.click(one("#last .why summary"))
    names = "[...document.querySelectorAll('#last .why .name')].map(e => e.textContent)"
    browser.until(f"{names}.includes('rw')")
    assert sorted(browser.run(names))[-2:] == ["right", "rw"]  # words, and never markup
    assert "the best other class" in browser.run(text_of("#last .why"))

    reader.new_task("watched", features={"kind": "text"}, mode="shadow")
    reader.new_task("plain")
    for name, sentence in {
        "watched": "Only tasks in learn mode can be played",
        "plain": "numbers without a display setting",
        "missing": "There is no task named missing.",
    }.items():
        reader.visit(f"/play/{name}")
        browser.until(f"{shown('#message')} && {text_of('#message')}.includes({json.dumps(sentence)})")
        assert not browser.run(shown("#game"))


@needs_chromium
def test_the_dashboard_tells_what_the_service_heard(reader: Reader) -> None:
    browser = reader.browser
    classes = [*NASTY, *(f"class {number}" for number in range(1000 - len(NASTY)))]
    features = {"kind": "dict", "hash_bits": 4}
    reader.new_task("many", classes=classes, features=features)
    decided = reader.ask("POST", "/v1/tasks/many/decide", [{"x": {"<u>": 1.5}} for _ in range(50)])
    hints = [{"id": one["id"], "right": place % 4 == 0} for place, one in enumerate(decided[:40])]
    reader.ask("POST", "/v1/tasks/many/feedback", hints)
    reader.visit("/#task=many")
    browser.until(f"{text_of('#error-now')} === '75.0 %'")
    assert "Wrong: 30 of the last 40 feedbacks;" in browser.run(text_of("#error-interval"))
    browser.click(named("#windows button", "100"))
    browser.until(f"{one('#curve .plot')}.uplot.data[0].at(-1) === 40")
    assert browser.run(f"{one('#curve .plot')}.uplot.data[1].at(-1)") == 0.75
    assert browser.run(f"{one('#rates .plot')}.uplot.data[0].length") == 120
    delays = browser.run("[...document.querySelectorAll('#delays .value')].map(e => parseInt(e.textContent))")
    assert sum(delays) == 40
    states = browser.run("[...document.querySelectorAll('#last .feedback')].map(e => e.textContent)")
    assert states == ["no feedback yet"] * 8
    assert browser.run(text_of("#last .x")) == "<u>: 1.5"

    rows = "[...document.querySelectorAll('#classes tbody tr')]"
    assert browser.run(f"{rows}.length") == 20
    played = browser.run(f"{rows}.map(row => Number(row.cells[1].textContent))")
    assert played == sorted(played, reverse=True)
    assert sum(played) <= 50
    head = "document.querySelector('#classes thead button')"
    browser.run(f"{head}.focus()")
    browser.key("Enter", 13, "\r")
    assert browser.run(f"{head}.parentElement.ariaSort") == "ascending"
    assert browser.run(f"{rows}.map(row => row.cells[0].title)") == browser.run(
        f"{json.dumps(classes)}.sort((a, b) => a.localeCompare(b, 'en', {{numeric: true}})).slice(0, 20)"
    )
    browser.click(one("#more-classes"))
    assert browser.run(f"{rows}.length") == 120
    assert browser.run(f"{one('main')}.querySelector('b, u, i, script')") is None

    more = reader.ask("POST", "/v1/tasks/many/decide", {"id": "the newest", "x": {}})
    browser.until(f"{text_of('#last code')} === 'the newest'")
    reader.ask("POST", "/v1/tasks/many/feedback", {"id": "the newest", "right": True})
    browser.until(f"{text_of('#last .feedback')} === 'right'")
    assert browser.run(text_of("#last .label")) == str(more["label"])[:59] + "…" * (len(str(more["label"])) > 60)


@needs_chromium
def test_the_dashboard_tells_how_sure_decisions_were_and_what_they_were_worth(reader: Reader) -> None:
    browser = reader.browser
    reader.new_task("worth", sure=0.3)
    decided = reader.ask("POST", "/v1/tasks/worth/decide", [{"id": f"u{n}", "x": [1, 2]} for n in range(4)])
    wrong = next(one for one in "ab" if one != decided[3]["label"])
    reader.visit("/#task=worth")
    browser.until(shown("#last .badges"))
    browser.until(f"{text_of('#last .badges')}.includes('unsure: confidence not known yet')")
    assert not browser.run(shown("#mean-reward"))
    hints = [
        {"id": "u0", "reward": 0.5},
        {"id": "u1", "reward": 1},
        {"id": "u2", "right": True},
        {"id": "u3", "truth": wrong},
    ]
    reader.ask("POST", "/v1/tasks/worth/feedback", hints)
    browser.until(
        f"{text_of('#mean-reward')} === 'Mean reward 0.625 over the last 4 feedbacks, 0.625 in total. A reward below 1 counts as wrong.'"
    )
    browser.until(f"{text_of('#last .feedback')} === 'wrong, true class: {wrong}'")
    assert browser.run("[...document.querySelectorAll('#last .feedback')].at(-1).textContent") == "reward 0.5"
    assert (
        browser.run(text_of("#certainty-text"))
        == "0 of 4 decisions were sure (0.0 %). No sure decision has feedback yet."
    )
    reader.ask("PATCH", "/v1/tasks/worth", {"sure": 0})
    reader.ask("POST", "/v1/tasks/worth/decide", {"id": "s", "x": [1, 2], "among": ["a"]})
    reader.ask("POST", "/v1/tasks/worth/feedback", {"id": "s", "right": True})
    reader.ask("PATCH", "/v1/tasks/worth", {"risk": 0.2})
    browser.until(f"{text_of('#certainty-text')}.endsWith('0.0 % were wrong. The risk of 20.0 % is kept.')")
    assert browser.run(f"{one('#sure-curve .plot')}.uplot.data") == [
        [1, 2, 3, 4, 5],
        [0, 0, 0, 0, 0.2],
        [None] * 4 + [0],
    ]
    browser.until(f"{text_of('#last .what')}.includes('chosen from 1 of 2 classes')")
    assert "risk 20.0 %" in browser.run(text_of("#task-facts"))
    browser.click(named("#task-tools button", "Settings"))
    reader.fill(sure="0.9", risk="")
    reader.send_form()
    browser.until(f"{text_of('#task-facts')}.endsWith('minimum confidence 90.0 %')")
    task = reader.ask("GET", "/v1/tasks/worth")
    assert (task["sure"], task["risk"]) == (0.9, None)


@needs_chromium
def test_a_short_curve_counts_in_whole_feedbacks(reader: Reader) -> None:
    browser = reader.browser
    reader.new_task("few")
    reader.visit("/#task=few")
    for count, ticks in enumerate([["0", "1", "2"], ["1", "2"], ["1", "2", "3"]], 1):
        (decided,) = reader.ask("POST", "/v1/tasks/few/decide", [{"x": [1, 0]}])
        reader.ask("POST", "/v1/tasks/few/feedback", {"id": decided["id"], "right": True})
        browser.until(f"{one('#curve .plot')}?.uplot?.data[0].at(-1) === {count}")
        browser.settle()
        assert browser.run(f"{one('#curve .plot')}.uplot.axes[0]._values") == ticks


@needs_chromium
def test_the_dashboard_tells_of_drift(reader: Reader) -> None:
    reader.new_task("drifting")
    for start, right in ((0, True), (500, True), (1000, False)):
        ids = [f"{number}" for number in range(start, start + 500)]
        reader.ask("POST", "/v1/tasks/drifting/decide", [{"id": one, "x": [1, 2]} for one in ids])
        reader.ask("POST", "/v1/tasks/drifting/feedback", [{"id": one, "right": right} for one in ids])
    reader.visit("/#task=drifting")
    reader.browser.until(f"{text_of('#drift-list')}?.includes('100.0 % of the last')")
    assert not reader.browser.run(f"{one('#drift')}.hidden")


@needs_chromium
def test_in_shadow_mode_the_error_is_that_of_what_was_shown(reader: Reader) -> None:
    browser = reader.browser
    heads = "[...document.querySelectorAll('#classes thead button')].map(e => e.textContent)"
    reader.new_task("beside", mode="shadow")
    decided = reader.ask("POST", "/v1/tasks/beside/decide", {"x": [1, 0]})
    reader.ask("POST", "/v1/tasks/beside/feedback", {"id": decided["id"], "right": False, "shown": "b"})
    reader.visit("/#task=beside")
    browser.until(f"{text_of('#error-now')} === '100.0 %'")
    assert browser.run(text_of("#error-title")) == "Error of shown classes"
    assert browser.run(heads) == [
        "Class",
        "Times decided",
        "Feedbacks when shown",
        "Right when shown (95 % interval)",
    ]
    assert "error of shown classes" in browser.run(text_of("#task-list [aria-current]"))
    reader.ask("PATCH", "/v1/tasks/beside", {"mode": "learn"})
    browser.until(f"{text_of('#error-title')} === 'Current error'")
    assert browser.run(heads) == ["Class", "Times played", "Feedbacks", "Right (95 % interval)"]


@needs_chromium
def test_the_theme_is_switched_and_remembered(reader: Reader) -> None:
    browser = reader.browser
    ground = "getComputedStyle(document.body).backgroundColor"
    reader.visit("/")
    browser.until(f"!!{one('#theme')}")
    light = browser.run(ground)
    browser.click(one("#theme"))
    assert browser.run(ground) == light
    browser.click(one("#theme"))
    dark = browser.run(ground)
    darkness, lightness = (sum(map(int, re.findall(r"\d+", colour))) for colour in (dark, light))
    assert darkness < 150
    assert lightness > 600
    reader.visit("/play/digits")
    browser.until(f"!!{one('#theme')}")
    assert browser.run(ground) == dark
    browser.click(one("#theme"))
    assert browser.run(ground) == light  # as the system has it
    browser.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert browser.run(ground) == dark


@needs_chromium
def test_a_phone_shows_everything_and_nothing_is_too_small_to_touch(reader: Reader) -> None:
    browser = reader.browser
    size = {"kind": "numbers", "size": 24}
    reader.new_task("n" * 100, classes=NASTY, features=size, display=IMAGE, deadline_s=60)
    reader.ask("POST", f"/v1/tasks/{'n' * 100}/decide", [{"x": [0.5] * 24}, {"id": "i" * 200, "x": [2] * 24}])
    browser.send("Emulation.setDeviceMetricsOverride", width=PHONE, height=740, deviceScaleFactor=2, mobile=True)
    small = f"""[...document.querySelectorAll('button, .button, nav a, input, select, textarea, summary')]
        .filter(e => e.checkVisibility() && e.type !== 'checkbox').map(e => [e, e.getBoundingClientRect()])
        .filter(([e, box]) => box.height < {FINGER - 0.5} || (!e.closest('.scroll') && box.right > {PHONE}))
        .map(([e]) => e.id || e.textContent)"""
    for path, ready in {
        f"/#task={'n' * 100}": shown("#last .picture"),
        f"/play/{'n' * 100}": shown("#pad"),
        "/docs": "document.querySelectorAll('.route').length > 5",
    }.items():
        reader.visit(path)
        browser.until(ready)
        browser.run("document.querySelectorAll('details').forEach(one => (one.open = true))")
        browser.settle()
        assert browser.run("document.documentElement.scrollWidth") == PHONE, path
        assert browser.run(small) == [], path
    reader.visit("/")
    browser.until(shown("#create"))
    browser.click(one("#create"))
    browser.until(f"!!{one('dialog')}")
    assert browser.run(f"{one('dialog')}.scrollWidth <= {PHONE} && document.documentElement.scrollWidth === {PHONE}")


@needs_chromium
def test_what_the_token_may_not_do_is_not_offered(reader: Reader) -> None:
    browser = reader.browser
    reader.new_task("mine", features={"kind": "text"})
    reader.new_task("theirs")
    tokens = Tokens(reader.folder / "tokens.json")
    reader.become(tokens.create(["read"], ["mine"]))
    reader.visit("/")
    browser.until(shown("#figures"))
    browser.until("[...document.querySelectorAll('#task-list .name')].map(e => e.textContent).join() === 'mine'")
    assert browser.run(f"{one('#task-tools')}.children.length") == 0
    assert not browser.run(shown("#create"))
    reader.visit("/play/mine")
    browser.until(f"{shown('#message')} && {text_of('#message')}.includes(\"scopes 'decide' and 'feedback'\")")
    play = f"{named('#top a', 'Play')}.getAttribute('href')"
    browser.until(f"{play} === '/play/digits'")
    reader.become(tokens.create(["decide", "feedback"], ["mine", "theirs"]))
    reader.visit("/play/theirs")
    browser.until(f"{play} === '/play/mine'")  # of theirs there is nothing to show
    reader.become(tokens.create(["decide"], ["mine"]))
    reader.visit("/")
    browser.until(shown("#unreadable"))
    assert not browser.run(shown("#figures"))


@needs_chromium
def test_what_is_to_be_looked_after(service: Reader, tmp_path: Path) -> None:
    """A task that is quarantined is named with the reason, and can be deleted; the other is there."""
    folder, browser = tmp_path / "data", service.browser

    async def fill() -> None:
        async with service_in(folder) as made:
            for name in ("bad", "good"):
                await made.create(new_task(name))
                await decided(made, "one", task=name)

    run(fill())
    damage(without_snapshots(folder), "changes", "detail", "replace(detail, '\"size\": 2', '\"size\": -2')")
    with process_in(folder) as process:
        browser.visit(process.url)
        browser.until(shown("#attention"))
        said = browser.run(text_of("#attention-list"))
        assert "bad is quarantined: task 'bad', row 1 of changes: detail.features" in said
        browser.until(f"!!{one('#task-list .name')}")  # the list of the tasks comes by a request of its own
        assert browser.run(text_of("#task-list .name")) == "good"
        browser.click(one("#attention-list button"))
        service.send_form()
        browser.until(f"!{shown('#attention')}")
        assert httpx.get(f"{process.url}/readyz").json()["quarantined"] == []


@needs_chromium
def test_every_route_is_described(reader: Reader) -> None:
    browser = reader.browser
    reader.new_task("described")
    reader.visit("/docs")
    browser.until(f"!!{one('.route')}")
    described = reader.ask("GET", "/openapi.json")["paths"]
    routes = {(method.upper(), path) for path, item in described.items() for method in item}
    heads = "[...document.querySelectorAll('.route > summary')]"
    told = browser.run(
        f"{heads}.map(e => [e.querySelector('.method').textContent, e.querySelector('.path').textContent])"
    )
    assert {(method, path) for method, path in told} == routes
    assert len(told) == len(routes)
    badges = browser.run(f"{heads}.map(e => e.querySelector('.badge')?.textContent ?? null)")
    words = {"nobody": "no token needed", "anybody": "any token", "everything": "scope read, for all tasks"}
    scopes = [described[path][method.lower()].get("x-scope") for method, path in told]
    assert badges == [words.get(scope, f"scope {scope}") for scope in scopes]
    browser.run("document.querySelectorAll('.route').forEach(one => (one.open = true))")
    browser.settle()
    assert "`" not in browser.run(text_of("#routes"))
    assert "before" in browser.run("[...document.querySelectorAll('.route .about code')].map(e => e.textContent)")
    examples = browser.run("[...document.querySelectorAll('.route .command code')].map(e => e.textContent)")
    assert len(examples) == len(routes)
    assert all(reader.url in example for example in examples)
    stats = f"{heads}.find(e => e.textContent.includes('/stats')).parentElement"
    browser.run(f"{stats}.querySelector('[name=task]').value = 'described'")
    browser.click(f"{stats}.querySelector('.try button')")
    browser.until(f"{stats}.querySelector('pre')?.textContent.includes('\"task\": \"described\"')")


@needs_chromium
def test_the_dashboard_waits_while_hidden_and_comes_back_after_a_restart(service: Reader, tmp_path: Path) -> None:
    browser = service.browser
    with process_in(tmp_path) as process:
        url = process.url
        task = {"name": "kept", "classes": ["a", "b"], "features": {"kind": "text"}, "learner": "banditron"}
        assert httpx.post(f"{url}/v1/tasks", json=task, timeout=PATIENCE_S).status_code == 201
        browser.visit(url)
        browser.until(f"{text_of('#task-name')} === 'kept'")
        hide = (
            "Object.defineProperty(document, 'hidden', {value: %s, configurable: true});"
            "document.dispatchEvent(new Event('visibilitychange'))"
        )
        browser.run(hide % "true")
        browser.run("new Promise(done => setTimeout(done, 500))")  # what is under way may end
        browser.requests.clear()
        browser.run("new Promise(done => setTimeout(done, 2000))")
        assert browser.requests == []
        browser.run(hide % "false")
        browser.until(f"!!{one('#task-name')}")
        assert not browser.run(shown("#trouble"))
    browser.until(f"{shown('#trouble')} && {text_of('#trouble')}.includes('is not responding. Next attempt in')")
    with process_in(tmp_path, "--port", url.rpartition(":")[2]):
        browser.until(f"!{shown('#trouble')}")
        assert browser.requests
    browser.visit(service.url)  # else it would go on asking a service that has ended
    browser.complaints.clear()


def colours() -> dict[str, tuple[str, str]]:
    """The colours of the style sheet, light and dark, by name."""
    text = (PAGES / "style.css").read_text(encoding="utf-8")
    return {
        name: (light, dark) for name, light, dark in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", text)
    }


def brightness(colour: str) -> float:
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("dark", [False, True])
def test_text_can_be_read(dark: bool) -> None:
    """Contrasts of WCAG 2 level AA: 4.5 for text, 3 for lines that carry meaning."""
    pairs = [(ink, ground, 4.5) for ink in ("ink", "muted", "link", "bad") for ground in ("ground", "raised")]
    pairs += [
        ("good", "good-ground", 4.5),
        ("bad", "bad-ground", 4.5),
        ("on-link", "link", 4.5),
        ("ground", "ink", 4.5),
    ]
    pairs += [("ground", "bad", 4.5)] + [(f"curve-{place}", "ground", 3.0) for place in range(3)]
    for ink, ground, least in pairs:
        low, high = sorted(brightness(colours()[name][dark]) for name in (ink, ground))
        assert (high + 0.05) / (low + 0.05) >= least, (ink, ground)


def test_curves_have_the_colours_of_the_report() -> None:
    for place in range(3):
        assert colours()[f"curve-{place}"] == (style.LIGHT[place], style.DARK[place])


def test_nothing_becomes_markup_and_nothing_comes_from_elsewhere() -> None:
    for file in PAGES.iterdir():
        if file.name.endswith((".js", ".html", ".css")):
            text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
            assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", text) == []
            assert re.findall(r"https?://|@import|\burl\(", text) == [], file.name
