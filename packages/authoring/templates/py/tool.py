"""Counts the words of a text."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from backplane_sdk import Plugin, fail  # noqa: E402

plugin = Plugin("__PACKAGE_ID__", "0.1.0")


@plugin.tool("__EXPORT_ID__")
def count_words(input, call):
    words = input["text"].split()
    if not words:
        fail("There is no text to count.")
    call.progress(f"counted {len(words)} words")
    return {"words": len(words)}


if __name__ == "__main__":
    plugin.serve()
