// A plugin without an SDK: vai.rpc.v1 over stdio with Content-Length framing.
const protocol = "vai.rpc.v1";
let buffer = Buffer.alloc(0);

process.stdin.on("data", (chunk) => {
  buffer = Buffer.concat([buffer, chunk]);
  for (;;) {
    const end = buffer.indexOf("\r\n\r\n");
    if (end === -1) return;
    const length = Number(/content-length: *(\d+)/i.exec(buffer.subarray(0, end).toString())[1]);
    if (buffer.length < end + 4 + length) return;
    const frame = JSON.parse(buffer.subarray(end + 4, end + 4 + length).toString());
    buffer = buffer.subarray(end + 4 + length);
    handle(frame);
  }
});
process.stdin.on("end", () => process.exit(0));

const pending_requests = new Set();

function handle(frame) {
  if (frame.type === "hello") {
    send({ type: "hello", role: "plugin", plugin: { package_id: "acme/cli-kit", version: "0.1.0" } });
  } else if (frame.type === "request") {
    answer(frame);
  } else if (frame.type === "cancel" && pending_requests.delete(frame.request_id)) {
    reply(frame.request_id, { status: "cancelled" });
  } else if (frame.type === "shutdown") {
    process.exit(0);
  }
}

function answer({ id, body }) {
  const { export_id, input, context } = body;
  const event = (value) => send({ type: "event", request_id: id, event: value });
  const replyText = (text) =>
    reply(id, { status: "succeeded", result: { content: [{ type: "text", text }] } });
  if (export_id === "slow") {
    pending_requests.add(id);
    event({ type: "progress", message: "waiting" });
  } else if (export_id === "broken") {
    reply(id, {
      status: "failed",
      error: { code: "acme_down", message: "The server is down." },
      result: { content: [{ type: "text", text: "no luck" }], is_error: true },
    });
  } else if (export_id === "secretive") {
    replyText(`${context.secrets.token.length} characters`);
  } else if (input.text === "as an error") {
    const content = [{ type: "text", text: "not found" }];
    reply(id, { status: "succeeded", result: { content, is_error: true } });
  } else {
    event({ type: "progress", message: "working" });
    replyText(`${context.config.prefix ?? ""}${input.text ?? "done"}`);
  }
}

function reply(id, body) {
  send({ type: "response", id, ok: true, body });
}

function send(frame) {
  const bytes = Buffer.from(JSON.stringify({ protocol, ...frame }));
  process.stdout.write(`Content-Length: ${bytes.length}\r\n\r\n`);
  process.stdout.write(bytes);
}
