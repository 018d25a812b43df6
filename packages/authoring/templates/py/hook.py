"""Writes a line for each event. An event may be delivered again: use call.delivery_id to do the work only once."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from backplane_sdk import Plugin  # noqa: E402

plugin = Plugin("__PACKAGE_ID__", "0.1.0")


@plugin.hook("__EXPORT_ID__", on=["run.completed", "invocation.settled"])
def write_line(event, call):
    call.log(f"{event['type']} {event['subject']['id']}")
    call.progress(f"{event['type']} {event['subject']['id']}")


if __name__ == "__main__":
    plugin.serve()
