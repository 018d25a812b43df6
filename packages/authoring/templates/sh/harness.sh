#!/bin/sh
# Works through the lines of the message. After a crash or `run resume` it continues from the last checkpoint.
. "$(dirname "$0")/../lib/backplane_sdk.sh"

WANTED='body.trigger.input.#.text body.checkpoint.data.done'

harness __EXPORT_ID__
on___EXPORT_ID__() {
  get body.checkpoint.data.done && finished=${value:-0}
  get_text body.trigger.input.0.text && text=$value
  total=$(printf '%s\n' "$text" | grep -c .)
  if [ "$total" -eq 0 ]; then
    fail_call "There is nothing to do."
    return
  fi
  number=0 rest=$text$NL
  while [ -n "$rest" ]; do
    line=${rest%%"$NL"*} rest=${rest#*"$NL"}
    [ -n "$line" ] || continue
    number=$((number + 1))
    [ "$number" -gt "$finished" ] || continue
    progress "line $number of $total: $line"
    checkpoint "{\"done\":$number}"
  done
  succeed "{\"summary\":{\"text\":\"$number lines done.\"},\"checkpoint\":{\"kind\":\"checkpoint\",\"data\":{\"done\":$number}}}"
}

serve __PACKAGE_ID__ 0.1.0
