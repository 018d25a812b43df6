import { spawn } from "node:child_process";
import { expect, onTestFinished, test } from "vitest";
import { takeListeners } from "../../src/egress/take-listeners.ts";
import { openRig, Talk } from "../support/egress.ts";

/** A program with a channel; `S` is a listening server of its own. */
function program(code: string) {
  const server = `const S = require("node:net").createServer().listen(0, "127.0.0.1", () => { ${code} });`;
  const child = spawn(process.execPath, ["-e", server], { stdio: ["ignore", "ignore", "inherit", "ipc"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  return child;
}

const LEAVE = "() => { S.close(); process.disconnect(); }";

test("a listener that another process opened is served here, after that has let go of the channel", async () => {
  const { session } = await openRig({});
  expect(session.listeners).toHaveLength(1);
  const child = program(`process.send({ listener: 0, port: S.address().port }, S, ${LEAVE})`);
  let port = 0;
  child.once("message", (message: { port: number }) => {
    port = message.port;
  });
  await takeListeners(child, session);
  expect(child.connected).toBe(false);
  const talk = new Talk(port).say("CONNECT evil.test:443 HTTP/1.1\r\n\r\n");
  expect(await talk.rest()).toContain("403");
  expect(session.refusals()).toMatchObject([{ host: "evil.test" }]);
});

test.each([
  ["ends too early", "process.disconnect()"],
  ["hands out an unknown one", `process.send({ listener: 5 }, S, ${LEAVE})`],
  ["hands out nothing with it", `process.send({ listener: 0 }, ${LEAVE})`],
])("a sandbox that %s", async (_, code) => {
  const { session } = await openRig({});
  await expect(takeListeners(program(code), session)).rejects.toMatchObject({ code: "launch_failed" });
});

test("nothing to hand out", async () => {
  const { session } = await openRig({ network: "none" });
  await expect(takeListeners(program("0"), session)).resolves.toBeUndefined();
});
