/** The output of `backplane` and `backplane --help`. A test compares it with the command tree. */
export const OVERVIEW = `Backplane, the plugin gateway for AI agents.

Usage: backplane <command> [flags]

Run the gateway
  up            start it (in the foreground, or with --detach in the background)
  down          stop it
  status        show whether it is running, and its health
  open          print a new one-time sign-in link
  doctor        check this machine and suggest fixes

Plugins
  plugin        search, install, outdated, upgrade, rollback, replay, list, info, remove, enable, disable, reload, trust, init, test, dev, pack, sign, push, pull
  binding       make an export usable: create, list, show, set, tools, accept, rollback, login, logout, enable, disable, validate, remove
  workspace     folders whose tool files are offered as tools: trust, list, show, untrust
  secret        set, list, show, remove, rotate-key
  config        live settings: get, set, unset, list

Conversations
  session       chat, list, show, set, replay, fork, reset, handoff, compact, undo, compactions, loss, pin, unpin, pins, interrupt
  run           single turns and harnesses: start, resume, list, show, cancel
  provider      models: list, add, set, use, test, remove
  llm           the model endpoints for Codex, OpenCode and Claude Code: models, calls, show

Calls
  invoke        run an export
  invocation    list, show, artifact, cancel, events
  approve       answer approval requests: list, show, allow, deny, grants, revoke
  allow         let calls run without asking each time: list, add, remove
  delivery      events on their way to hooks: list, show, replay, discard
  hook          try, pause and resume a hook: test, pause, resume
  tool          the catalog: list, show
  policy        which calls run, need approval or are denied: show, set, explain
  mcp           serve the tools to an MCP client over stdio
  client        let Claude Code, Codex, OpenCode, Gemini CLI, VS Code or Cursor use the tools: connect, list, disconnect

Access and records
  key           API keys and signing keys: create, generate, trust, list, revoke
  audit         list, verify
  backup        write the data of the home to one archive
  restore       replace the home with such an archive
  store         the database files: check, backup, repair, restore
  events        tail
  completion    for bash, zsh, fish

Global flags
  --json        one JSON document on stdout       --url URL       address of the gateway
  --quiet       no progress, no hints             --token TOKEN   credential
  --no-input    never prompt (exit code 2)        --home DIR      home of the gateway
  --yes         skip confirmations                --org, --project  act in this scope
  --help        help for a command                --version       print the version

First steps
  backplane up --detach
  backplane plugin install ./my-plugin --bind
  backplane invoke my_tool --input '{"query":"hello"}'
  backplane session chat

Exit codes: 0 ok, 1 failed, 2 usage, 3 denied, 4 credential, 5 no gateway, 6 trust, 7 conformance,
8 partial, 124 timeout, 130 interrupted.
`;
