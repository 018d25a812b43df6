/**
 * A vai.rpc.v1 plugin that opens connections inside the sandbox for a test. During its call it listens on a socket in
 * a mounted folder. The first line of each connection names a target, and the plugin joins it with a connection to that
 * target. The line {"end":true} ends the call. With `run` in its input it runs that program instead.
 */
import { execFile } from "node:child_process";
import { connect, createServer } from "node:net";
import { hello, onFrame, reply } from "./frames.mjs";

onFrame((message) => {
  if (message.type === "hello") hello();
  if (message.type === "shutdown") process.exit(0);
  if (message.type !== "request") return;
  const { id, body } = message;
  const { run, socket } = body.input;
  if (run === undefined) serve(id, socket);
  else runInside(id, run);
});

function runInside(id, [program, ...args]) {
  execFile(program, args, { timeout: 60_000 }, (error, stdout, stderr) =>
    reply(id, { content: [], structured_output: { stdout, stderr, code: error?.code ?? 0 } }),
  );
}

function serve(id, path) {
  const server = createServer({ allowHalfOpen: true }, (near) => {
    near.on("error", () => {});
    let text = Buffer.alloc(0);
    const first = (chunk) => {
      text = Buffer.concat([text, chunk]);
      const end = text.indexOf(10);
      if (end < 0) return;
      near.off("data", first);
      const target = JSON.parse(text.subarray(0, end).toString());
      if (target.end) {
        near.end();
        server.close();
        reply(id, { content: [], structured_output: { ended: true } });
        return;
      }
      const far = connect({ host: target.host, port: target.port, allowHalfOpen: true });
      far.on("error", () => near.destroy());
      far.write(text.subarray(end + 1));
      near.pipe(far);
      far.pipe(near);
    };
    near.on("data", first);
  });
  server.listen(path);
}
