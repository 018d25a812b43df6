#!/bin/sh
# Keeps the last answered turn, everything after it, and earlier system messages and pinned blocks.
. "$(dirname "$0")/../lib/backplane_sdk.sh"

BLOCKS=body.source.projection.blocks
PINNED=body.source.projection.pinned_items
WANTED="$BLOCKS.#= $BLOCKS.#.kind $BLOCKS.#.entry_id $PINNED.#.entry_id"

compactor __EXPORT_ID__
on___EXPORT_ID__() {
  find_start
  find_pinned
  seed= removed=0 index=0
  while get "$BLOCKS.$index.kind" && [ -n "$value" ]; do
    kind=$value
    get "$BLOCKS.$index.entry_id"
    if [ "$index" -ge "$start" ] || [ "$kind" = system ] || is_pinned "$value"; then
      get "$BLOCKS.$index="
      seed=${seed:+$seed,}$value
    else
      removed=$((removed + 1))
    fi
    index=$((index + 1))
  done
  subject='blocks were'
  [ "$removed" -ne 1 ] || subject='block was'
  succeed "{\"seed_blocks\":[$seed],\"summary\":{\"text\":\"$removed earlier $subject removed.\"}}"
}

find_start() { # the input of the last answered turn
  start=0 input=0 index=0
  while get "$BLOCKS.$index.kind" && [ -n "$value" ]; do
    case $value in
      input) input=$index ;;
      response) start=$input ;;
    esac
    index=$((index + 1))
  done
}

find_pinned() {
  pinned=' ' index=0
  while get "$PINNED.$index.entry_id" && [ -n "$value" ]; do
    pinned="$pinned$value "
    index=$((index + 1))
  done
}

is_pinned() { case $pinned in *" $1 "*) ;; *) return 1 ;; esac; }

serve __PACKAGE_ID__ 0.1.0
