/** A third party's kernel plugin in its process: what it finds there, what it may write and keep, and its end. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Invocation, PluginRow } from "@backplane/contract";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway.ts";
import { eventually, isAlive, processesWith } from "../support/processes.ts";

/** Tries all that a plugin must not be able to, and says what came of it. */
const PROBER = `import { execFileSync } from "node:child_process";
import dgram from "node:dgram";
import dns from "node:dns/promises";
import fs from "node:fs";
import net from "node:net";

const tried = (work) => { try { return { got: work() ?? "done" }; } catch (error) { return { refused: error.code ?? error.message }; } };
const dial = (options) => new Promise((done) => {
  const socket = net.connect(options, () => { socket.destroy(); done({ got: "connected" }); });
  socket.once("error", (error) => done({ refused: error.code }));
});
const datagram = (port, host) => new Promise((done) => {
  const socket = dgram.createSocket("udp4");
  socket.send("x", port, host, (error) => { socket.close(); done(error ? { refused: error.code } : { got: "sent" }); });
});
const page = (url) => fetch(url).then((answer) => answer.text()).then((got) => ({ got }), (error) => ({ refused: error.cause?.code ?? error.message }));

const look = {
  stateDir: (_args, ctx) => ctx.stateDir,
  read: ({ path }) => tried(() => fs.readFileSync(path, "utf8")),
  list: ({ path }) => tried(() => fs.readdirSync(path)),
  write: ({ path, text }) => tried(() => fs.writeFileSync(path, text)),
  env: () => process.env,
  processes: () => fs.readdirSync("/proc").filter((name) => /^\\d+$/.test(name)).map((pid) => fs.readFileSync("/proc/" + pid + "/cmdline", "utf8")),
  signal: ({ pid }) => tried(() => process.kill(pid, 0)),
  dial: (options) => dial(options),
  datagram: ({ port, host }) => datagram(port, host),
  resolve: ({ name }) => dns.lookup(name).then(({ address }) => ({ got: address }), (error) => ({ refused: error.code })),
  page: ({ url }) => page(url),
  status: () => fs.readFileSync("/proc/self/status", "utf8"),
  mount: () => tried(() => execFileSync("/bin/mount", ["-t", "tmpfs", "none", "/plugin"], { stdio: "pipe" })),
  cwd: () => process.cwd(),
};

export const plugin = {
  name: "prober", version: "1.0.0", category: "tool", subscriptions: () => [],
  onLoad: (ctx) => ctx.registerTool({
    name: "probe", description: "Tries one thing.", parameters: { type: "object" }, effect_class: "read_only",
    async run({ what, ...args }) {
      return { ok: true, brief: what, display: { kind: "json", data: { found: await look[what](args, ctx) } } };
    },
  }),
};
`;

interface Tried {
  got?: string;
  refused?: string;
}

let gateway: TestGateway;
let server: Server;
let place: string;
const folders: string[] = [];

function pluginFolder(name: string, module: string): string {
  const folder = mkdtempSync(join(tmpdir(), "backplane-kernel-plugin-"));
  folders.push(folder);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "plugin.mjs"), module);
  writeFileSync(
    join(folder, "package.json"),
    JSON.stringify({
      name,
      version: "1.0.0",
      type: "module",
      "yaya.plugins.v1": { [name]: { category: "tool", module: "./plugin.mjs" } },
    }),
  );
  return folder;
}

async function probe<T = Tried>(what: string, args: object = {}, at = gateway): Promise<T> {
  const call = { export_id: "probe", input: { what, ...args } };
  const { body } = await at.http<Invocation>("POST", "/v1/invocations?wait=30", call);
  expect(body, JSON.stringify(body)).toMatchObject({ status: "succeeded" });
  const { structured_output } = body.result as unknown as {
    structured_output: { display: { data: { found: T } } };
  };
  return structured_output.display.data.found;
}

async function rowOf(at: TestGateway, name: string): Promise<PluginRow> {
  const { stdout } = await at.cli("plugin", "info", name, "--json");
  return JSON.parse(stdout) as PluginRow;
}

/** The plugin's process as this machine sees it: the one whose sandbox has its state. */
const hostProcesses = (at: TestGateway) =>
  processesWith("/sandbox/host/@backplane/sdk/").filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/mountinfo`, "utf8").includes(`${at.home}/plugins/state/prober`);
    } catch {
      return false;
    }
  });

beforeAll(async () => {
  server = createServer((_request, response) => response.end("from outside"));
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  place = `localhost:${(server.address() as AddressInfo).port}`;
  const home = mkdtempSync(join(tmpdir(), "backplane-e2e-"));
  writeFileSync(join(home, "backplane.toml"), `[egress]\nallow_private = ["${place}"]\n`);
  gateway = await startTestGateway({ home, env: { ACME_TOKEN: "of the gateway" } });
  const installed = await gateway.cli("plugin", "install", pluginFolder("prober", PROBER), "--yes");
  expect(installed.code, installed.stderr).toBe(0);
});
afterAll(async () => {
  await gateway.dispose();
  server.close();
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

test("debug", async () => {
  console.log(await rowOf(gateway, "prober"));
  console.log(await probe("env"), await probe("stateDir"), await probe("list", {path:"/"}), await probe("list", {path:"/sandbox"}), await probe("list",{path:"/plugin"}), await probe("processes"), await probe("cwd"));
  console.log(await probe("read", {path:"/etc/passwd"}), await probe("list",{path:"/etc"}), await probe("list", {path:"/sandbox/host"}));
  console.log(await probe("dial", {port: (server.address() as AddressInfo).port, host:"127.0.0.1"}), await probe("datagram",{port:53,host:"1.1.1.1"}), await probe("resolve",{name:"example.com"}), await probe("page",{url:`http://${place}/`}), await probe("mount"));
  console.log(hostProcesses(gateway));
}, 60000);
