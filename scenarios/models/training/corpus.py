"""The corpus: the King James Bible of Debian's bible-kjv-text, read through the program `bible` of
the package bible-kjv. A line is a verse without its number; an empty line ends a chapter.

Two books are held out, never trained on: Ruth and Jonah. They are the evaluation text.
"""
import re
import subprocess

HELD_OUT = ("Ruth", "Jonah")
REFERENCE = re.compile(r"^(\d?[A-Za-z]+?)(\d+):(\d+) (.*)$")


def read():
    """Returns (training text, held-out text) as bytes."""
    lines = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], capture_output=True, text=True,
                           stdin=subprocess.DEVNULL, check=True).stdout.splitlines()
    texts = {True: [], False: []}
    last = None
    for line in lines:
        match = REFERENCE.match(line)
        if match is None:
            raise SystemExit(f"a line of `bible -f` has no reference: {line!r}")
        book, chapter = match.group(1), match.group(2)
        text = texts[book in HELD_OUT]
        if last not in (None, (book, chapter)):
            texts[last[0] in HELD_OUT].append("\n")
        last = (book, chapter)
        text.append(match.group(4).strip() + "\n")
    return tuple("".join(texts[held]).encode("ascii") for held in (False, True))
