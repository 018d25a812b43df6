#!/bin/sh
# A hook that implements vai.rpc.v1 with only sh, awk, dd and tr. It handles one call at a time and reads a cancel after
# the current call, so keep calls short. README.md lists the limits.
LC_ALL=C # lengths are counted in bytes, and invalid UTF-8 is not an error
export LC_ALL
PACKAGE_ID=acme/notifier
VERSION=0.1.0
CR=$(printf '\r')
NL='
'
SELECTED_PATHS='type id op body.export_id body.context.config.prefix body.event.type body.event.subject.id
body.event.summary.status body.event.summary.task'

write_frame() { # writes one frame of the given type and fields; under LC_ALL=C ${#1} is a length in bytes
  set -- "{\"protocol\":\"vai.rpc.v1\",\"type\":\"$1\",$2}"
  printf 'Content-Length: %d\r\n\r\n%s' "${#1}" "$1"
}

die() {
  printf '%s: %s\n' "$PACKAGE_ID" "$1" >&2
  exit 1
}

read_frame() { # reads the next frame into $frame; returns false at the end of the stream
  length=
  while :; do
    IFS= read -r line || return 1
    line=${line%"$CR"}
    [ -n "$line" ] || break
    case $line in [Cc][Oo][Nn][Tt][Ee][Nn][Tt]-[Ll][Ee][Nn][Gg][Tt][Hh]:*) length=${line#*:} length=${length# } ;; esac
  done
  case $length in '' | *[!0-9]* | ????????*) die "a frame has no usable Content-Length" ;; esac
  [ "$length" -le 1048576 ] || die "a frame of $length bytes is too large"
  frame=$(dd bs=1 count="$length" 2>/dev/null) # byte by byte, because the bytes that follow belong to the next frame
}

# Converts JSON to lines of path=value for the selected paths. Strings keep their JSON escapes, so that they can be
# written to JSON unchanged; a string longer than 1000 bytes is left out.
flatten() {
  printf '%s' "$1" | awk -v selected=" $(printf %s "$SELECTED_PATHS" | tr '\n' ' ') " '
    function skip_space() { while (substr(s, i, 1) ~ /[ \t\r\n]/) i++ }
    function print_selected(path, text) {
      if (length(text) <= 1000 && index(selected, " " path " ")) print path "=" text
    }
    function string(from, c) {
      for (from = ++i; (c = substr(s, i, 1)) != "\""; i += (c == "\\") ? 2 : 1) if (i > n) exit 1
      return substr(s, from, i++ - from)
    }
    function value(path, open, key, item) {
      skip_space(); open = substr(s, i, 1)
      if (open == "\"") { print_selected(path, string()); return }
      if (open != "{" && open != "[") {
        if (!match(substr(s, i, 40), /^[-+.a-zA-Z0-9]+/)) exit 1
        print_selected(path, substr(s, i, RLENGTH)); i += RLENGTH; return
      }
      for (i++; ; value((path == "" ? "" : path ".") key)) {
        for (skip_space(); substr(s, i, 1) == ","; skip_space()) i++
        if (substr(s, i, 1) ~ /[]}]/) { i++; return }
        if (i > n) exit 1
        if (open == "{") { key = string(); skip_space(); i++ } else key = item++
      }
    }
    { s = s (NR > 1 ? "\n" : "") $0 }
    END { n = length(s); i = 1; value("") }'
}

get() { # puts the value at a path into $value
  value=
  case $fields in *"$NL$1="*) value=${fields#*"$NL$1="} value=${value%%"$NL"*} ;; esac
}

notify() {
  get id && id=$value
  get op && op=$value
  get body.export_id
  if [ "$op $value" != "hook.handle notify" ]; then
    text="This plugin has only the hook notify."
    result="{\"content\":[{\"type\":\"text\",\"text\":\"$text\"}],\"is_error\":true,\"retryable\":false}"
    write_frame response "\"id\":\"$id\",\"ok\":true,\"body\":{\"status\":\"failed\",\"result\":$result}"
    return
  fi
  get body.context.config.prefix && text=${value:+$value }
  get body.event.type && text=$text$value
  get body.event.subject.id && text="$text $value"
  get body.event.summary.status
  [ -n "$value" ] || get body.event.summary.task
  text=$text${value:+: $value}
  printf '%s\n' "$text" >&2
  write_frame event "\"request_id\":\"$id\",\"event\":{\"type\":\"progress\",\"message\":\"$text\"}"
  write_frame response "\"id\":\"$id\",\"ok\":true,\"body\":{\"status\":\"ack\"}"
}

while read_frame; do
  fields=$(flatten "$frame") || die "a frame is not JSON"
  fields=$NL$fields$NL
  get type
  case $value in
    hello) write_frame hello "\"role\":\"plugin\",\"plugin\":{\"package_id\":\"$PACKAGE_ID\",\"version\":\"$VERSION\"}" ;;
    request) notify ;;
    cancel) ;; # its call has already been answered
    shutdown) exit 0 ;;
    *) die "the host sent a frame of an unknown type" ;;
  esac
done
