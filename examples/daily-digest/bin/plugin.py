"""digest asks about each line of the message in its own run and joins the answers."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from backplane_sdk import Plugin, fail  # noqa: E402

ATTEMPTS = 3

plugin = Plugin("acme/daily-digest", "0.1.0")


@plugin.harness("digest")
def digest(request, call):
    blocks = request["trigger"].get("input", [])
    topics = [line.strip() for block in blocks for line in block.get("text", "").split("\n") if line.strip()]
    answers = list(request.get("checkpoint", {}).get("data", {}).get("answers", []))
    execution_id = request["target"]["execution_id"]
    for number in range(len(answers), len(topics)):
        call.progress(f"topic {number + 1} of {len(topics)}")
        answers.append(ask(call, f"{execution_id}-{number}", f"topic-{number}", topics[number]))
        call.checkpoint({"answers": answers})
    return {"summary": {"text": "\n".join(answers)}, "checkpoint": {"kind": "checkpoint", "data": {"answers": answers}}}


def ask(call, session_id, key, topic):
    """Asks about a topic in a run. A run that did not complete, for example because its gateway stopped, is repeated
    under the next key."""
    for attempt in range(1, ATTEMPTS + 1):
        run = call.run(f"{key}-{attempt}", session_id, topic)
        if run["status"] == "completed":
            return (run["output"] or {}).get("content", "")
    return fail(f"{topic}: {(run['error'] or {}).get('message', run['status'])}")


if __name__ == "__main__":
    plugin.serve()
