/** From inside a network namespace: the listeners that it handed out are the only way, for whoever is allowed. */
import { spawn } from "node:child_process";
import { chmodSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import type { EgressSession } from "../../packages/runner/src/egress/create-egress.ts";
import { takeListeners } from "../../packages/runner/src/egress/hand-out.ts";
import { openRig } from "../../packages/runner/test/egress/egress-rig.ts";
import { listen } from "../../packages/runner/test/egress/loopback.ts";
import { emptyFolder } from "../../packages/runner/test/sandbox/open-test-sandbox.ts";
import { openWorld, ownAddress } from "./egress-world.ts";

const PROGRAM = fileURLToPath(new URL("./egress-inside.py", import.meta.url));
const NAMESPACE = [
  "--unshare-user",
  "--unshare-net",
  "--unshare-pid",
  "--die-with-parent",
  "--ro-bind",
  "/",
  "/",
];

/** What the program says, run in there with the session's listeners, names and variables. */
async function runInside(session: EgressSession, order: object): Promise<unknown> {
  const hosts = join(emptyFolder(), "hosts");
  const names = session.hosts.map(({ address, name }) => `${address} ${name}\n`);
  writeFileSync(hosts, ["127.0.0.1 localhost\n", ...names].join(""));
  chmodSync(join(hosts, ".."), 0o755);
  const words = JSON.stringify({ listeners: session.listeners, ...order });
  const child = spawn(
    "bwrap",
    [...NAMESPACE, "--ro-bind", hosts, "/etc/hosts", "/usr/bin/python3", PROGRAM, words],
    { env: { ...session.env, PATH: process.env.PATH }, stdio: ["ignore", "pipe", "inherit", "ipc"] },
  );
  onTestFinished(() => void child.kill("SIGKILL"));
  let said = "";
  child.stdout!.on("data", (chunk: Buffer) => {
    said += chunk.toString();
  });
  const ended = new Promise((resolve) => child.once("close", resolve));
  await takeListeners(child, session);
  expect(child.connected).toBe(false);
  expect(await ended).toBe(0);
  return JSON.parse(said);
}

test("by proxy and transparently to what is allowed, and nowhere else", async () => {
  const { port, rig, hits } = await openWorld((at) => ({ domains: [`api.acme.test:${at}`] }));
  const abstract = `backplane-${process.pid}-${Math.random().toString(36).slice(2)}`;
  const unix = createServer((socket) => {
    hits.push("unix");
    socket.destroy();
  });
  await new Promise<void>((resolve) => unix.listen(`\0${abstract}`, resolve));
  onTestFinished(() => void unix.close());
  const order = { name: "api.acme.test", port, addresses: [ownAddress()], abstract };
  expect(await runInside(rig.session, order)).toEqual({
    served: { proxy: "ok", transparent: "ok", curl: "ok", "curl-direct": "ok" },
    hits: [],
    tries: 17,
  });
  expect(hits).toEqual([]);
  const asked = rig.session.refusals().map(({ host, reason }) => `${host} ${reason}`);
  expect(asked).toEqual(
    expect.arrayContaining([
      "127.0.0.1 address.literal",
      "127.88.0.1 address.literal",
      "api.acme.test host.mismatch",
      "evil.test domain.not_allowed",
    ]),
  );
});

test("the gateway's address without any network: its routes, with the token", async () => {
  const asked: string[] = [];
  const { port } = await listen((socket) => {
    socket.on("data", (chunk: Buffer) => {
      asked.push(chunk.toString().split(" ", 2).join(" "));
      socket.end("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
    });
  });
  const gateway = { base_url: `http://127.0.0.1:${port}` };
  const { session } = await openRig({ network: "none", scopes: ["sessions:read"], gateway });
  expect(await runInside(session, { gateway: session.gateway_url })).toEqual({
    "/v1/sessions vai_dlg_x": 200,
    "/v1/sessions bpk_x": 403,
    "/metrics vai_dlg_x": 403,
  });
  expect(asked).toEqual(["GET /v1/sessions"]);
  expect(session.refusals()).toMatchObject([{ reason: "gateway.no_token" }, { reason: "gateway.route" }]);
});
