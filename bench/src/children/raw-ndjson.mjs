// A lower bound for frames of one line: the smallest program that echoes them, without checks or limits.
let rest = "";
process.stdin.setEncoding("utf8");
process.stdin.on("data", (chunk) => {
  rest += chunk;
  let from = 0;
  for (;;) {
    const end = rest.indexOf("\n", from);
    if (end < 0) break;
    const { id, input } = JSON.parse(rest.slice(from, end));
    from = end + 1;
    process.stdout.write(`${JSON.stringify({ id, output: input })}\n`);
  }
  rest = rest.slice(from);
});
