"""Keeps the last answered turn, everything after it, and earlier system messages and pinned blocks."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from backplane_sdk import Plugin  # noqa: E402

plugin = Plugin("__PACKAGE_ID__", "0.1.0")


@plugin.compactor("__EXPORT_ID__")
def keep_recent(request, call):
    projection = request["source"]["projection"]
    blocks = projection.get("blocks", [])
    pinned = {item["entry_id"] for item in projection.get("pinned_items", [])}
    kinds = [block["kind"] for block in blocks]
    answer = max((index for index, kind in enumerate(kinds) if kind == "response"), default=-1)
    start = max((index for index, kind in enumerate(kinds[: answer + 1]) if kind == "input"), default=0)
    seed = [
        block
        for index, block in enumerate(blocks)
        if index >= start or block["kind"] == "system" or block["entry_id"] in pinned
    ]
    removed = len(blocks) - len(seed)
    subject = "block was" if removed == 1 else "blocks were"
    return {"seed_blocks": seed, "summary": {"text": f"{removed} earlier {subject} removed."}}


if __name__ == "__main__":
    plugin.serve()
