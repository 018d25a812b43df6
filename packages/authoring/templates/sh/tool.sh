#!/bin/sh
# Counts the words of a text.
. "$(dirname "$0")/../lib/backplane_sdk.sh"

WANTED='body.input.text'

tool __EXPORT_ID__
on___EXPORT_ID__() {
  get_text body.input.text
  set -f # a word such as * is not a pattern
  # shellcheck disable=SC2086 # the words are split on purpose
  set -- $value
  if [ $# -eq 0 ]; then
    fail_call "There is no text to count."
    return
  fi
  progress "counted $# words"
  succeed "{\"words\":$#}"
}

serve __PACKAGE_ID__ 0.1.0
