import { spawn } from "node:child_process";
import { expect, onTestFinished, test } from "vitest";
import { receiveListeners } from "../../src/egress/receive-listeners.ts";
import { createTestEgress, TestClient } from "../support/egress.ts";

/** Starts a program with an IPC channel; `S` is its own listening server. */
function startProgram(code: string) {
  const server = `const S = require("node:net").createServer().listen(0, "127.0.0.1", () => { ${code} });`;
  const child = spawn(process.execPath, ["-e", server], { stdio: ["ignore", "ignore", "inherit", "ipc"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  return child;
}

const LEAVE = "() => { S.close(); process.disconnect(); }";

test("serves a listener of another process after that process closed the channel", async () => {
  const { session } = await createTestEgress({});
  expect(session.listeners).toHaveLength(1);
  const child = startProgram(`process.send({ listener: 0, port: S.address().port }, S, ${LEAVE})`);
  let port = 0;
  child.once("message", (message: { port: number }) => {
    port = message.port;
  });
  await receiveListeners(child, session);
  expect(child.connected).toBe(false);
  const client = new TestClient(port).send("CONNECT evil.test:443 HTTP/1.1\r\n\r\n");
  expect(await client.readToEnd()).toContain("403");
  expect(session.refusals()).toMatchObject([{ host: "evil.test" }]);
});

test.each([
  ["exits too early", "process.disconnect()"],
  ["sends an unknown listener", `process.send({ listener: 5 }, S, ${LEAVE})`],
  ["does not send a descriptor", `process.send({ listener: 0 }, ${LEAVE})`],
])("rejects a sandbox that %s", async (_, code) => {
  const { session } = await createTestEgress({});
  await expect(receiveListeners(startProgram(code), session)).rejects.toMatchObject({
    code: "launch_failed",
  });
});

test("resolves immediately without listeners", async () => {
  const { session } = await createTestEgress({ network: "none" });
  await expect(receiveListeners(startProgram("0"), session)).resolves.toBeUndefined();
});
