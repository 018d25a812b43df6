/**
 * The rules that a plugin process must follow, each with its sentence in spec/protocol.md and the fix for a plugin that
 * breaks it. The ids are public: reports, CI and `spec/protocol.md` refer to them.
 */

export interface ProtocolRule {
  /** The requirement of the protocol. */
  rule: string;
  /** How the author fixes a plugin that breaks the rule. */
  fix: string;
}

export const VAI_RULES = {
  "start.runs": {
    rule: "The program starts in the sandbox and runs until it is told to stop.",
    fix: "Correct entrypoint in vai-plugin.toml, and put everything that the program needs into the package.",
  },
  "hello.answers": {
    rule: "The plugin answers the host's hello within 5 s.",
    fix: "Read one frame from stdin and answer it with a hello before doing anything slow.",
  },
  "hello.shape": {
    rule: 'The hello has protocol "vai.rpc.v1", type "hello", role "plugin" and plugin with package_id and version.',
    fix: 'Send {"protocol":"vai.rpc.v1","type":"hello","role":"plugin","plugin":{"package_id":…,"version":…}}.',
  },
  "hello.identity": {
    rule: "package_id and version of the hello are those of the manifest.",
    fix: "Use the package_id and version of vai-plugin.toml in the hello.",
  },
  "hello.once": {
    rule: "The plugin sends exactly one hello.",
    fix: "Send hello only as the answer to the host's hello.",
  },
  "stdout.frames": {
    rule: "stdout carries frames and nothing else.",
    fix: "Print logs and debug output to stderr, including those of libraries and child processes.",
  },
  "frame.body": {
    rule: "The body of a frame is one JSON object in UTF-8, and Content-Length is its length in bytes.",
    fix: "Count the bytes of the encoded JSON, not its characters, and write nothing between frames.",
  },
  "frame.limits": {
    rule: "A frame has at most 1 MiB and 64 levels of JSON.",
    fix: 'Return large data as an artifact: {"transport":"artifact","path":…} with filesystem = "scratch".',
  },
  "frame.type": {
    rule: "A plugin sends frames of the types hello, event and response, with protocol vai.rpc.v1.",
    fix: 'Set "protocol":"vai.rpc.v1" and "type":"event" or "type":"response" in each frame.',
  },
  "response.answers": {
    rule: "Every request is answered within its deadline.",
    fix: "Answer each request with one response that has its id, even if your code fails.",
  },
  "response.once": {
    rule: "Every request is answered exactly once.",
    fix: "Send one response for each request, and none after a cancel if the request was answered.",
  },
  "response.id": {
    rule: "The id of a response is the id of a request, as a string.",
    fix: "Copy the id of the request into the response unchanged.",
  },
  "response.shape": {
    rule: "A response has ok:true with body.status, or ok:false with error {code, message}, and does not contradict itself.",
    fix: 'Send {"protocol":"vai.rpc.v1","type":"response","id":…,"ok":true,"body":{"status":"succeeded","result":…}}.',
  },
  "response.status": {
    rule: "A hook answers ack, failed or retryable_failure; the other kinds never answer ack.",
    fix: 'Use "ack" for a hook that is done, and "succeeded" for a tool, compactor or harness.',
  },
  "result.shape": {
    rule: "The result has the fields of its kind.",
    fix: 'Compare the result with "Bodies and results" in spec/protocol.md.',
  },
  "result.schema": {
    rule: "structured_output of a successful tool matches its output_schema.",
    fix: "Correct the result, or the schema that the manifest names.",
  },
  "compactor.retains": {
    rule: "seed_blocks contain, unchanged, every pinned block, system message and open task, and calls before their results.",
    fix: "Copy these blocks of source.projection as they are, in their order.",
  },
  "event.shape": {
    rule: "An event has request_id and event with a type.",
    fix: 'Send {"protocol":"vai.rpc.v1","type":"event","request_id":…,"event":{"type":"progress","message":…}}.',
  },
  "event.belongs": {
    rule: "An event refers to a request that is not answered yet.",
    fix: "Send all events of a request before its response.",
  },
  "input.invalid": {
    rule: "A request whose input the plugin cannot use is answered, and the process keeps running.",
    fix: 'Catch errors of the handler and answer with status "failed".',
  },
  "request.concurrent": {
    rule: "Requests that arrive together are all answered.",
    fix: "Keep the bytes after a frame: they belong to the next one.",
  },
  "request.unknown-op": {
    rule: "A request with an unknown op is answered with a failure, and the process keeps running.",
    fix: "Answer ok:false with an error for an op that you do not know.",
  },
  "request.unknown-export": {
    rule: "A request for an unknown export is answered with a failure, and the process keeps running.",
    fix: "Compare export_id with your exports, and answer ok:false or a failed status for any other.",
  },
  "read.utf8": {
    rule: "Content-Length of an incoming frame counts bytes.",
    fix: "Read bytes and decode them afterwards; a read of characters runs into the next frame.",
  },
  "read.split": {
    rule: "A frame may arrive in several chunks.",
    fix: "Read until the header and then Content-Length bytes are complete.",
  },
  "read.headers": {
    rule: "Header names are case-insensitive, and other headers are ignored.",
    fix: "Look for content-length in any spelling, and skip headers that you do not know.",
  },
  "read.large": {
    rule: "The plugin reads frames of up to 1 MiB.",
    fix: "Read in a loop; one read of a pipe returns at most 64 KiB.",
  },
  "read.invalid": {
    rule: "A frame that is not JSON ends the connection: the plugin exits.",
    fix: "Exit when a frame cannot be parsed; the bytes after it cannot be trusted.",
  },
  "read.oversized": {
    rule: "A frame larger than 1 MiB ends the connection before its body is read: the plugin exits.",
    fix: "Compare Content-Length with 1048576 and exit if it is larger.",
  },
  "cancel.answers": {
    rule: "A cancelled request is answered within 2 s.",
    fix: "Stop the work and answer with status cancelled, or with the result if it is ready.",
  },
  "cancel.unknown": {
    rule: "A cancel for a request that is unknown or answered is ignored.",
    fix: "Ignore a cancel whose request_id is not in flight.",
  },
  "deadline.passed": {
    rule: "A request whose deadline_at has passed is answered too.",
    fix: "Answer with a failed or cancelled status instead of waiting or exiting.",
  },
  "shutdown.exits": {
    rule: "After a shutdown the plugin exits within 5 s with code 0.",
    fix: "Exit when a frame of type shutdown arrives.",
  },
  "stdin.end": {
    rule: "The plugin exits within 5 s after its stdin has ended, because the host is gone.",
    fix: "Exit when a read from stdin returns nothing.",
  },
  "secrets.hidden": {
    rule: "Neither frames nor stderr contain a secret or the delegation token.",
    fix: "Remove secrets from results, events, error messages and logs.",
  },
} as const satisfies Record<string, ProtocolRule>;

export const SIDE_RULES = {
  "start.runs": VAI_RULES["start.runs"],
  "side.handshake": {
    rule: "The plugin answers the handshake with one line within 2 s.",
    fix: 'Print {"type":"handshake","manifest":{…}} and flush stdout.',
  },
  "side.identity": {
    rule: "plugin_id is the package_id, its last part, or runtime.plugin_id, and protocol_version is rterm.plugin.v1.",
    fix: "Use the id of vai-plugin.toml, or set plugin_id under [runtime].",
  },
  "side.tools": {
    rule: "exposed_tools contains every tool of the manifest.",
    fix: "List the export's id, or the tool_name of the manifest, in exposed_tools.",
  },
  "side.capabilities": {
    rule: "capabilities are distinct names; if the manifest has runtime.capabilities, it lists all of them.",
    fix: "Remove capabilities that the manifest does not list.",
  },
  "side.response": {
    rule: "A request is answered with one valid response line that has its request_id.",
    fix: 'Print {"type":"response","request_id":…,"status":"ok","output":…} and flush stdout.',
  },
  "side.schema": {
    rule: "The output of a successful call matches the output_schema of the tool.",
    fix: "Correct the output, or the schema that the manifest names.",
  },
  "side.input": {
    rule: "A request whose input the plugin cannot use is answered.",
    fix: 'Catch errors of the handler and answer with status "error".',
  },
  "side.unknown-tool": {
    rule: "A request for an unknown tool is answered with status error.",
    fix: "Compare tool_name with your tools and answer with an error for any other.",
  },
  "side.exit": {
    rule: "The plugin exits within 500 ms after its response, with code 0, even if it answered with an error.",
    fix: "End the program after the response instead of waiting for another line.",
  },
  "side.output": {
    rule: "stdout has one line for the handshake, one for the response, and nothing else.",
    fix: "Print logs to stderr, and nothing after the response.",
  },
  "side.stdin-end": {
    rule: "The plugin exits when its stdin ends before a request.",
    fix: "Exit when a read from stdin returns nothing.",
  },
  "secrets.hidden": VAI_RULES["secrets.hidden"],
} as const satisfies Record<string, ProtocolRule>;

export type VaiRule = keyof typeof VAI_RULES;
export type SideRule = keyof typeof SIDE_RULES;
export type RuleId = VaiRule | SideRule;
