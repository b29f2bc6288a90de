"""Ticket routing with late feedback.

A help desk gets mails and sends each to one of five teams. Nobody writes down which team would have been right. A team that gets a
mail by mistake sends it back, mostly within the hour: that is "wrong". A team that can help closes the ticket, some hours or days later:
that is "right". One mail in five is never heard of again.

So a decision has to wait, and many are made before its answer comes. Here each waits as a line of JSON, as it would in a queue or a
database, and the learner hears of it when its time has come. The same mails are routed twice: with answers at once, and with answers as
they come. A desk that never hears anything would be wrong four times in five.

The mails are generated: words of each team, words of all, and words of another team, since people describe what they see. Half-way
through, the company moves its telephones to the network, and mails about them are the network team's from then on.

    python examples/ticket_routing.py pictures
"""

from __future__ import annotations

import argparse
import heapq
from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

import onebit

TEAMS = {
    "accounts": "password login locked account reset expired user access denied sign certificate",
    "network": "wifi internet slow connection vpn cable router offline drops network signal",
    "printing": "printer paper jam toner scan print queue colour tray copier page",
    "telephones": "phone call handset headset voicemail ring extension dial hear mobile",
    "purchasing": "order invoice laptop new monitor quote delivery supplier price budget keyboard",
}
COMMON = "please help hello since today the my is not working again urgent thanks office floor we cannot it"
ANSWERED = 0.8  # the share of mails whose ticket is ever closed or sent back
MAILS_AN_HOUR = 20


def mails(count: int, rng: np.random.Generator) -> tuple[list[str], list[str]]:
    """Texts, and the team that could have helped. The learner is never shown the team."""
    names = list(TEAMS)
    texts, teams = [], []
    for number in range(count):
        topic, other = rng.choice(names, size=2, replace=False)
        words = [
            *rng.choice(TEAMS[topic].split(), 3),
            *rng.choice(TEAMS[other].split(), 1),
            *rng.choice(COMMON.split(), 5),
        ]
        rng.shuffle(words)
        texts.append(" ".join(words))
        moved = topic == "telephones" and number >= count // 2
        teams.append("network" if moved else str(topic))
    return texts, teams


def route(texts: Sequence[str], teams: Sequence[str], late: bool, seed: int) -> tuple[NDArray[np.bool_], int]:
    """Which mails went to a wrong team, and how many answers had come by the end."""
    rng = np.random.default_rng(seed)
    learner = onebit.Auto(classes=list(TEAMS), text=True)
    waiting: list[tuple[float, int, str, bool]] = []  # when the answer comes, the mail, the decision, the answer
    wrong = np.zeros(len(texts), dtype=bool)
    for number, (text, team) in enumerate(zip(texts, teams, strict=True)):
        now = number / MAILS_AN_HOUR
        while waiting and waiting[0][0] <= now:
            _, _, line, right = heapq.heappop(waiting)
            learner.learn(onebit.Decision.from_json(line), right=right)
        decision = learner.decide(text, id=f"mail-{number}")
        right = decision.label == team
        wrong[number] = not right
        heard, hours = rng.random() < ANSWERED, rng.exponential(12.0 if right else 1.0)
        if not late:
            heard, hours = True, 0.0
        if heard:
            heapq.heappush(waiting, (now + hours, number, decision.to_json(), right))
    return wrong, learner.learnt


def running(wrong: NDArray[np.bool_], window: int) -> NDArray[np.float64]:
    """The error in % over the last `window` mails, at each mail from the first full window on."""
    return 100.0 * np.convolve(wrong, np.full(window, 1 / window), mode="valid")


def main(arguments: Sequence[str] | None = None) -> Path:
    """Route the mails, print what came of it, and draw it."""
    parser = argparse.ArgumentParser(description="Ticket routing with late feedback.")
    parser.add_argument("folder", type=Path, help="where the picture goes")
    parser.add_argument("--mails", type=int, default=4000, help="how many mails there are (default: %(default)s)")
    chosen = parser.parse_args(arguments)
    if chosen.mails < 100:
        parser.error(f"--mails is {chosen.mails}, but must be at least 100")

    texts, teams = mails(chosen.mails, np.random.default_rng(0))
    window = max(1, chosen.mails // 20)
    figure, axes = plt.subplots(figsize=(7.2, 4.0), layout="constrained")
    for name, late, colour in (
        ("answers at once", False, "#0072b2"),
        ("answers late, one in five never", True, "#d55e00"),
    ):
        wrong, learnt = route(texts, teams, late, seed=1)
        print(f"{name}: {learnt:,} of {len(texts):,} answers heard, {100 * wrong.mean():.1f} % went to a wrong team")
        axes.plot(np.arange(window, len(texts) + 1), running(wrong, window), color=colour, label=name)
    blind = 100.0 * (1 - 1 / len(TEAMS))
    print(f"no answers at all: about {blind:.0f} % would go to a wrong team")
    axes.axhline(blind, color="#555555", linestyle="--")
    axes.annotate("no answers at all", (0, blind), xytext=(6, 4), textcoords="offset points")
    axes.axvline(len(texts) / 2, color="#999999", linewidth=0.8)
    axes.annotate(
        "telephones move to the network team", (len(texts) / 2, 45), xytext=(6, 0), textcoords="offset points"
    )
    axes.set(
        xlabel="mails", ylabel=f"sent to a wrong team, % of the last {window}", ylim=(0, 100), xlim=(0, len(texts))
    )
    axes.set_title("Routing tickets, from who sent them back", loc="left", fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper right", bbox_to_anchor=(1, 0.8))
    chosen.folder.mkdir(parents=True, exist_ok=True)
    path: Path = chosen.folder / "ticket-routing.png"
    figure.savefig(path, dpi=110)
    plt.close(figure)
    print(f"the picture is {path}")
    return path


if __name__ == "__main__":
    main()
