"""Works through the lines of the message. After a crash or `run resume` it continues from the last checkpoint.

To let the agent work on a line, request the scope runs:write in the manifest and call
call.run("line-1", session_id, line).
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from backplane_sdk import Plugin, fail  # noqa: E402

plugin = Plugin("__PACKAGE_ID__", "0.1.0")


@plugin.harness("__EXPORT_ID__")
def work_through(request, call):
    blocks = request["trigger"].get("input", [])
    lines = [line for block in blocks for line in block.get("text", "").split("\n") if line.strip()]
    if not lines:
        fail("There is nothing to do.")
    done = request.get("checkpoint", {}).get("data", {}).get("done", 0)
    for line in lines[done:]:
        done += 1
        call.progress(f"line {done} of {len(lines)}: {line}")
        call.checkpoint({"done": done})
    return {
        "summary": {"text": f"{done} lines done."},
        "checkpoint": {"kind": "checkpoint", "data": {"done": done}},
    }


if __name__ == "__main__":
    plugin.serve()
