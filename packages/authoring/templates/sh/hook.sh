#!/bin/sh
# Writes a line for each event. An event may be delivered again: body.delivery_id stays the same.
. "$(dirname "$0")/../lib/backplane_sdk.sh"

WANTED='body.event.type body.event.subject.id'

hook __EXPORT_ID__
on___EXPORT_ID__() {
  get_text body.event.type && line=$value
  get_text body.event.subject.id && line="$line $value"
  log "$line"
  progress "$line"
  acknowledge
}

serve __PACKAGE_ID__ 0.1.0
