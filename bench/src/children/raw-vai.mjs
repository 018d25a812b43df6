// A lower bound for vai.rpc.v1: the smallest program that answers its requests, without checks or limits.
let unread = Buffer.alloc(0);
process.stdin.on("data", (chunk) => {
  unread = unread.length === 0 ? chunk : Buffer.concat([unread, chunk]);
  for (;;) {
    const head = unread.indexOf("\r\n\r\n");
    if (head < 0) return;
    const length = Number(unread.toString("latin1", 16, head));
    const end = head + 4 + length;
    if (unread.length < end) return;
    const { id, body } = JSON.parse(unread.toString("utf8", head + 4, end));
    unread = unread.subarray(end);
    const result = { content: [{ type: "text", text: body.input.text }] };
    const reply = JSON.stringify({
      protocol: "vai.rpc.v1",
      type: "response",
      id,
      ok: true,
      body: { status: "succeeded", result },
    });
    process.stdout.write(`Content-Length: ${Buffer.byteLength(reply)}\r\n\r\n${reply}`);
  }
});
