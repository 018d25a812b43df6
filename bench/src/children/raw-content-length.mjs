// A lower bound for the round trip of frames with a Content-Length: the smallest program that echoes them, without
// checks or limits.
let unread = Buffer.alloc(0);
process.stdin.on("data", (chunk) => {
  unread = unread.length === 0 ? chunk : Buffer.concat([unread, chunk]);
  for (;;) {
    const head = unread.indexOf("\r\n\r\n");
    if (head < 0) return;
    const length = Number(unread.toString("latin1", 16, head));
    const end = head + 4 + length;
    if (unread.length < end) return;
    const { id, input } = JSON.parse(unread.toString("utf8", head + 4, end));
    unread = unread.subarray(end);
    const body = JSON.stringify({ id, output: input });
    process.stdout.write(`Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
  }
});
