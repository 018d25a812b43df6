// A lower bound for frames with a Content-Length: the smallest program that echoes them, without checks or limits.
let rest = Buffer.alloc(0);
process.stdin.on("data", (chunk) => {
  rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
  for (;;) {
    const head = rest.indexOf("\r\n\r\n");
    if (head < 0) return;
    const length = Number(rest.toString("latin1", 16, head));
    const end = head + 4 + length;
    if (rest.length < end) return;
    const { id, input } = JSON.parse(rest.toString("utf8", head + 4, end));
    rest = rest.subarray(end);
    const body = JSON.stringify({ id, output: input });
    process.stdout.write(`Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
  }
});
