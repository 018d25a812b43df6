"""jira_search finds issues by words. Each kind of failure of Jira has its own message."""

import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

from backplane_sdk import Plugin, fail, retry_later  # noqa: E402

MAX_RESPONSE_BYTES = 512 * 1024

plugin = Plugin("acme/jira", "0.1.0")


@plugin.tool("jira_search")
def jira_search(input, call):
    base_url = call.config["base_url"].rstrip("/")
    query = urllib.parse.urlencode(
        {
            "jql": build_jql(input["query"], input.get("project")),
            "maxResults": call.config.get("max_results", 10),
            "fields": "summary,status",
        }
    )
    request = urllib.request.Request(f"{base_url}/rest/api/3/search/jql?{query}")
    # An unredirected header, so that the token is not sent to the target of a redirect.
    request.add_unredirected_header("Authorization", f"Bearer {call.secret('jira_token')}")
    request.add_header("Accept", "application/json")
    call.progress(f"searching {base_url}")
    response = call.blocking(fetch_json, request, call.time_left())
    issues = [describe(issue, base_url) for issue in response.get("issues", [])]
    count = "1 issue" if len(issues) == 1 else f"{len(issues)} issues"
    lines = [f"{issue['key']} [{issue['status']}] {issue['summary']}" for issue in issues]
    text = "\n".join([f"Found {count}.", *lines])
    return {"content": [{"type": "text", "text": text}], "structured_output": {"issues": issues}}


def build_jql(query, project):
    words = query.replace("\\", "\\\\").replace('"', '\\"')
    where = f'text ~ "{words}"' + (f' AND project = "{project}"' if project else "")
    return f"{where} ORDER BY created DESC"


def fetch_json(request, timeout):
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            body = response.read(MAX_RESPONSE_BYTES + 1)
    except urllib.error.HTTPError as error:
        raise_for_status(error.code, error.headers.get("Retry-After"))
    except OSError as error:
        retry_later(f"Jira cannot be reached: {getattr(error, 'reason', error)}")
    if len(body) > MAX_RESPONSE_BYTES:
        fail(f"Jira's response is larger than {MAX_RESPONSE_BYTES} bytes. Lower max_results.")
    try:
        return json.loads(body)
    except ValueError:
        fail("Jira's response is not JSON. Check base_url.")


def raise_for_status(status, retry_after):
    if status in (401, 403):
        fail(f"Jira refused the token ({status}). Check the secret that is bound to jira_token.")
    if status == 429:
        wait = f" Retry after {retry_after} s." if retry_after else ""
        retry_later(f"Jira's rate limit was exceeded (429).{wait}")
    if status >= 500:
        retry_later(f"Jira returned a server error ({status}).")
    fail(f"Jira did not accept the search ({status}).")


def describe(issue, base_url):
    fields = issue.get("fields", {})
    return {
        "key": issue["key"],
        "summary": fields.get("summary") or "",
        "status": (fields.get("status") or {}).get("name", ""),
        "url": f"{base_url}/browse/{issue['key']}",
    }


if __name__ == "__main__":
    plugin.serve()
