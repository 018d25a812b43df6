// A lower bound for the round trip of frames of one line: the smallest program that echoes them, without checks or
// limits.
let unread = "";
process.stdin.setEncoding("utf8");
process.stdin.on("data", (chunk) => {
  unread += chunk;
  let from = 0;
  for (;;) {
    const end = unread.indexOf("\n", from);
    if (end < 0) break;
    const { id, input } = JSON.parse(unread.slice(from, end));
    from = end + 1;
    process.stdout.write(`${JSON.stringify({ id, output: input })}\n`);
  }
  unread = unread.slice(from);
});
