"""Choosing a language model by thumbs.

An assistant has four language models behind it, and sends each prompt to one of them. Readers press thumbs up or thumbs down under
the answer, if they press anything. Nobody knows what the other models would have said. The learner sees the text of the prompt, chooses,
and learns from the thumb.

The models are stand-ins that run here in a line or two: one calculates, one translates, one sorts words, and a large one can do a bit of
everything, right six times in ten. They do answer, and an answer is right or wrong. The prompts are generated. Of the readers 40 % press no
thumb, and 5 % of the thumbs are the wrong way round.

Prompts are embedded by a small encoder where sentence-transformers and its model are on this machine (nothing is downloaded), and else
hashed, word by word: `text=True`.

    python examples/model_choice.py pictures
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import onebit

ENCODER = "all-MiniLM-L6-v2"
FRENCH = {
    "house": "maison",
    "dog": "chien",
    "bread": "pain",
    "water": "eau",
    "book": "livre",
    "night": "nuit",
    "sun": "soleil",
}
KINDS = ("sum", "translation", "sorting")
PRESSED, SLIPPED = 0.6, 0.05

Model = Callable[[str, str], str]


def prompt(kind: str, rng: np.random.Generator) -> tuple[str, str]:
    """A prompt of this kind, and the answer that a reader would call right."""
    if kind == "sum":
        a, b = rng.integers(2, 100, size=2)
        asked = rng.choice(["what is {} plus {}", "add {} and {} for me", "i have {} coins and get {} more, how many"])
        return str(asked).format(a, b), str(a + b)
    words = [str(word) for word in rng.permutation(list(FRENCH))[:3]]
    if kind == "translation":
        asked = rng.choice(["how do you say {} in french", "translate {} please", "the french word for {}"])
        return str(asked).format(words[0]), FRENCH[words[0]]
    asked = rng.choice(["put in order: {} {} {}", "sort {} {} {} by the alphabet", "list {} {} {} from a to z"])
    return str(asked).format(*words), " ".join(sorted(words))


def models(rng: np.random.Generator) -> dict[str, Model]:
    """The stand-ins. Each is given the prompt; the large one also the truth, which it tells six times in ten."""

    def calculator(text: str, truth: str) -> str:
        return str(sum(int(word) for word in text.replace(",", "").split() if word.isdigit()))

    def translator(text: str, truth: str) -> str:
        return next((FRENCH[word] for word in text.split() if word in FRENCH), "je ne sais pas")

    def sorter(text: str, truth: str) -> str:
        return " ".join(sorted(word for word in text.split() if word in FRENCH))

    def large(text: str, truth: str) -> str:
        return truth if rng.random() < 0.6 else "As a large model, I cannot say."

    return {"calculator": calculator, "translator": translator, "sorter": sorter, "large": large}


def embedding() -> tuple[str, Callable[[str], Any]]:
    """How a prompt becomes what the learner is shown: by an encoder on this machine, or as the text that it is."""
    try:
        from sentence_transformers import SentenceTransformer

        encoder = SentenceTransformer(ENCODER, local_files_only=True)
    except (ImportError, OSError):  # not installed, or its model is not on this machine
        return "hashed words", lambda text: text
    return f"embeddings of {ENCODER}", lambda text: np.asarray(encoder.encode(text), dtype=np.float32)


def main(arguments: Sequence[str] | None = None) -> Path:
    """Choose models for the prompts, print how it went, and draw it."""
    parser = argparse.ArgumentParser(description="Choosing a language model by thumbs.")
    parser.add_argument("folder", type=Path, help="where the picture goes")
    parser.add_argument("--prompts", type=int, default=3000, help="how many there are (default: %(default)s)")
    chosen = parser.parse_args(arguments)
    if chosen.prompts < 100:
        parser.error(f"--prompts is {chosen.prompts}, but must be at least 100")

    rng = np.random.default_rng(0)
    candidates, (how, embed) = models(rng), embedding()
    names = list(candidates)
    learner = onebit.Auto(classes=names, text=how == "hashed words")
    good = {name: np.zeros(chosen.prompts, dtype=bool) for name in ("chosen", *names)}
    last = np.zeros((len(KINDS), len(names)))  # who was chosen for what, in the last third
    for number in range(chosen.prompts):
        kind = int(rng.integers(len(KINDS)))
        text, truth = prompt(KINDS[kind], rng)
        decision = learner.decide(embed(text), id=f"prompt-{number}")
        asked = str(decision.label)
        for name, model in candidates.items():  # only the one chosen is shown; the others are for the picture
            good[name][number] = model(text, truth) == truth
        good["chosen"][number] = good[asked][number]
        last[kind, names.index(asked)] += number >= chosen.prompts * 2 // 3
        if rng.random() < PRESSED:
            slipped = rng.random() < SLIPPED
            learner.learn(decision, right=bool(good["chosen"][number] != slipped))

    print(f"prompts as {how}; {learner.learnt:,} thumbs for {chosen.prompts:,} prompts")
    for name, right in good.items():
        print(f"{'chosen by thumbs' if name == 'chosen' else 'always ' + name}: {100 * right.mean():.1f} % right")

    window = max(1, chosen.prompts // 20)
    figure, (left, right_axes) = plt.subplots(1, 2, figsize=(9.6, 4.0), layout="constrained", width_ratios=(3, 2))
    for (name, right), colour in zip(
        good.items(), ("#0072b2", "#e69f00", "#009e73", "#c4629a", "#555555"), strict=True
    ):
        drawn = 100.0 * np.convolve(right, np.full(window, 1 / window), mode="valid")
        label, width = ("chosen by thumbs", 2.4) if name == "chosen" else (f"always {name}", 0.9)
        left.plot(np.arange(window, chosen.prompts + 1), drawn, color=colour, linewidth=width, label=label)
    left.set(xlabel="prompts", ylabel=f"right answers, % of the last {window}", ylim=(0, 105), xlim=(0, chosen.prompts))
    left.set_title("The right model for a prompt", loc="left", fontweight="bold")
    left.legend(frameon=False, fontsize=8, ncols=2, loc="lower center")
    left.spines[["top", "right"]].set_visible(False)
    shares = 100.0 * last / np.maximum(last.sum(axis=1, keepdims=True), 1.0)
    right_axes.imshow(shares, cmap="Blues", vmin=0, vmax=120)
    for (row, column), share in np.ndenumerate(shares):
        right_axes.text(
            column, row, f"{share:.0f} %", ha="center", va="center", color="white" if share > 60 else "black"
        )
    right_axes.set_xticks(range(len(names)), names)
    right_axes.set_yticks(range(len(KINDS)), KINDS)
    right_axes.set_title("who was asked in the last third", loc="left")
    chosen.folder.mkdir(parents=True, exist_ok=True)
    path: Path = chosen.folder / "model-choice.png"
    figure.savefig(path, dpi=110)
    plt.close(figure)
    print(f"the picture is {path}")
    return path


if __name__ == "__main__":
    main()
