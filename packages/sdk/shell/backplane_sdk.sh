# The shell SDK: vai.rpc.v1 with only sh, awk, tr, cat and head or dd. Copy it into your package and source it:
#
#   . "$(dirname "$0")/../lib/backplane_sdk.sh"
#   WANTED='body.input.text'         # the fields that your functions read
#   tool word_count                  # an export; the function on_word_count handles its calls
#   on_word_count() { get_text body.input.text; set -f; set -- $value; succeed "{\"words\":$#}"; }
#   serve acme/words 0.1.0
#
# It handles one call at a time and reads a cancel after the current call, so keep calls short. In WANTED, # stands for
# any index of a list, and a trailing = asks for the JSON of the value instead of its fields.
LC_ALL=C # lengths are counted in bytes, and invalid UTF-8 is not an error
export LC_ALL
CR=$(printf '\r')
NL='
'
WANTED=${WANTED-}
EXPORTS=' '

tool() { EXPORTS="$EXPORTS""tool.invoke/$1 "; }
hook() { EXPORTS="$EXPORTS""hook.handle/$1 "; }
compactor() { EXPORTS="$EXPORTS""compactor.compact/$1 "; }
harness() { EXPORTS="$EXPORTS""harness.run/$1 "; }

# Puts the value at a path into $value: a string with its JSON escapes, so that it can be written to JSON unchanged, or
# a number, true, false or null as it is. Empty if there is none.
get() {
  value=
  case $fields in *"$NL$1="*) value=${fields#*"$NL$1="} value=${value%%"$NL"*} ;; esac
}

# Like get, but decodes JSON escapes: \uXXXX stays, and \b and \f become spaces.
get_text() {
  get "$1"
  case $value in
    *\\*) value=$(printf '%s' "$value" | awk '{
        text = ""
        while (match($0, /\\./)) {
          c = substr($0, RSTART + 1, 1)
          text = text substr($0, 1, RSTART - 1) (c == "n" ? "\n" : c == "t" ? "\t" : c == "r" ? "\r" : c == "u" ? "\\u" : c ~ /[bf]/ ? " " : c)
          $0 = substr($0, RSTART + 2)
        }
        printf "%s", text $0
      }') ;;
  esac
}

# Puts the text as a JSON string, with its quotes, into $json.
quote() {
  json=\"$(printf '%s' "$1" | awk '{
      gsub(/\\/, "\\\\"); gsub(/"/, "\\\""); gsub(/\t/, "\\t"); gsub(/\r/, "\\r"); gsub(/[\001-\037]/, " ")
      printf "%s%s", (NR > 1 ? "\\n" : ""), $0
    }')\"
}

log() { printf '%s\n' "$*" >&2; }

# Events of the current call.
emit() { send event "\"request_id\":\"$id\",\"event\":$1"; }
progress() { quote "$1" && emit "{\"type\":\"progress\",\"message\":$json}"; }
checkpoint() { emit "{\"type\":\"checkpoint\",\"checkpoint\":{\"kind\":\"checkpoint\",\"data\":$1}}"; }

# The answer to the current call; only the first one is sent.
succeed() { # the structured output of a tool, or the result of a compactor or harness, as JSON
  case $op in
    tool.invoke) quote "$1" && answer succeeded "{\"content\":[{\"type\":\"text\",\"text\":$json}],\"structured_output\":$1,\"is_error\":false}" ;;
    *) answer succeeded "$1" ;;
  esac
}
acknowledge() { answer ack; }
fail_call() {
  quote "$1"
  answer failed "{\"content\":[{\"type\":\"text\",\"text\":$json}],\"is_error\":true,\"retryable\":false}"
}
answer() {
  [ -z "$answered" ] || return 0
  answered=yes
  send response "\"id\":\"$id\",\"ok\":true,\"body\":{\"status\":\"$1\"${2:+,\"result\":$2}}"
}

serve() { # publisher/name and version, as in vai-plugin.toml
  PACKAGE_ID=$1 VERSION=$2
  exec 3>&1 >&2 # frames go to descriptor 3, and the output of commands goes to stderr
  WANTED=" type id op body.export_id $(printf %s "$WANTED" | tr '\n' ' ') "
  while receive; do
    fields=$(flatten "$frame") || die "a frame is not JSON"
    fields=$NL$fields$NL
    get type
    case $value in
      hello) send hello "\"role\":\"plugin\",\"plugin\":{\"package_id\":\"$PACKAGE_ID\",\"version\":\"$VERSION\"}" ;;
      request) handle ;;
      cancel) ;; # the call that it names has been answered
      shutdown) exit 0 ;;
      *) die "the host sent a frame of an unknown type" ;;
    esac
  done
}

handle() {
  answered=
  get id && id=$value
  get op && op=$value
  get body.export_id
  export_id=$value # the handler may set value
  case $EXPORTS in
    *" $op/$export_id "*)
      "on_$export_id" </dev/null || fail_call "on_$export_id returned $?."
      [ -n "$answered" ] || fail_call "on_$export_id did not answer."
      ;;
    *) fail_call "$PACKAGE_ID has no export $export_id for $op." ;;
  esac
}

send() { # writes one frame of the given type and fields; under LC_ALL=C ${#1} is a length in bytes
  set -- "{\"protocol\":\"vai.rpc.v1\",\"type\":\"$1\",$2}"
  printf 'Content-Length: %d\r\n\r\n%s' "${#1}" "$1" >&3
}

die() {
  log "$PACKAGE_ID: $1"
  exit 1
}

receive() { # reads the next frame into $frame; returns false at the end of the stream
  length=
  while :; do
    IFS= read -r line || return 1
    line=${line%"$CR"}
    [ -n "$line" ] || break
    case $line in [Cc][Oo][Nn][Tt][Ee][Nn][Tt]-[Ll][Ee][Nn][Gg][Tt][Hh]:*) length=${line#*:} length=${length# } ;; esac
  done
  case $length in '' | *[!0-9]* | ????????*) die "a frame has no usable Content-Length" ;; esac
  [ "$length" -le 1048576 ] || die "a frame of $length bytes is too large"
  frame=$(read_bytes "$length")
}

# Reads exactly this many bytes, because the next frame follows them. Some versions of head read ahead; dd reads byte
# by byte.
if [ "$(printf ab | { head -c 1 >/dev/null && cat; } 2>/dev/null)" = b ]; then
  read_bytes() { head -c "$1"; }
else
  read_bytes() { dd bs=1 count="$1" 2>/dev/null; }
fi

# Converts JSON to lines of path=value for the wanted paths.
flatten() {
  printf '%s' "$1" | awk -v wanted="$WANTED" '
    function skip_space() { while (substr(s, i, 1) ~ /[ \t\r\n]/) i++ }
    function is_wanted(path) { gsub(/\.[0-9]+/, ".#", path); return index(wanted, " " path " ") }
    function print_wanted(path, text) { if (is_wanted(path)) print path "=" text }
    function string(from) {
      for (from = ++i; i <= n; ) {
        if (!match(substr(s, i, 500), /["\\]/)) { i += 500; continue }
        i += RSTART - 1
        if (substr(s, i, 1) == "\"") return substr(s, from, i++ - from)
        i += 2
      }
      exit 1
    }
    function value(path, open, key, item, from) {
      skip_space(); open = substr(s, i, 1); from = i
      if (open == "\"") { print_wanted(path, string()); return }
      if (open != "{" && open != "[") {
        if (!match(substr(s, i, 40), /^[-+.a-zA-Z0-9]+/)) exit 1
        print_wanted(path, substr(s, i, RLENGTH)); i += RLENGTH; return
      }
      for (i++; ; value((path == "" ? "" : path ".") key)) {
        for (skip_space(); substr(s, i, 1) == ","; skip_space()) i++
        if (substr(s, i, 1) ~ /[]}]/) { i++; break }
        if (i > n) exit 1
        if (open == "{") { key = string(); skip_space(); i++ } else key = item++
      }
      if (is_wanted(path "=")) print path "==" substr(s, from, i - from)
    }
    { s = s (NR > 1 ? "\n" : "") $0 }
    END { n = length(s); i = 1; value("") }'
}
