/** A third-party kernel plugin in its own process: what it can read, write, keep and reach, and how it ends. */
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Invocation, PluginView } from "@backplane/contract";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway/gateway.ts";
import { eventually, isAlive, processesWith } from "../support/gateway/processes.ts";

/** A plugin whose tool attempts one operation for each call, such as a read or a connection, and reports the result. */
const PROBER = `import { execFileSync } from "node:child_process";
import dgram from "node:dgram";
import dns from "node:dns/promises";
import fs from "node:fs";
import net from "node:net";

const attempt = (work) => { try { return { got: work() ?? "done" }; } catch (error) { return { refused: error.code ?? error.message }; } };
const dial = (options) => new Promise((done) => {
  const socket = net.connect(options, () => { socket.destroy(); done({ got: "connected" }); });
  socket.once("error", (error) => done({ refused: error.code }));
});
const datagram = (port, host) => new Promise((done) => {
  const socket = dgram.createSocket("udp4");
  socket.send("x", port, host, (error) => { socket.close(); done(error ? { refused: error.code } : { got: "sent" }); });
});
const page = (url) => fetch(url).then((answer) => answer.text()).then((got) => ({ got }), (error) => ({ refused: error.cause?.code ?? error.message }));

const probes = {
  stateDir: (_args, ctx) => ctx.stateDir,
  read: ({ path }) => attempt(() => fs.readFileSync(path, "utf8")),
  list: ({ path }) => attempt(() => fs.readdirSync(path)),
  write: ({ path, text }) => attempt(() => fs.writeFileSync(path, text)),
  env: () => process.env,
  processes: () => fs.readdirSync("/proc").filter((name) => /^\\d+$/.test(name)).map((pid) => fs.readFileSync("/proc/" + pid + "/cmdline", "utf8")),
  signal: ({ pid }) => attempt(() => process.kill(pid, 0)),
  dial: (options) => dial(options),
  datagram: ({ port, host }) => datagram(port, host),
  resolve: ({ name }) => dns.lookup(name).then(({ address }) => ({ got: address }), (error) => ({ refused: error.code })),
  page: ({ url }) => page(url),
  status: () => fs.readFileSync("/proc/self/status", "utf8"),
  mount: () => attempt(() => execFileSync("/bin/mount", ["-t", "tmpfs", "none", "/plugin"], { stdio: "pipe" })),
  cwd: () => process.cwd(),
};

export const plugin = {
  name: "prober", version: "1.0.0", category: "tool", subscriptions: () => [],
  onLoad: (ctx) => ctx.registerTool({
    name: "probe", description: "Tries one thing.", parameters: { type: "object" }, effect_class: "read_only",
    async run({ what, ...args }) {
      return { ok: true, brief: what, display: { kind: "json", data: { found: await probes[what](args, ctx) } } };
    },
  }),
};
`;

interface AttemptResult {
  got?: string;
  refused?: string;
}

let gateway: TestGateway;
let server: Server;
let address: string;
const folders: string[] = [];

function writeKernelPluginFolder(name: string, module: string): string {
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

async function probe<T = AttemptResult>(what: string, args: object = {}, at = gateway): Promise<T> {
  const call = { export_id: "probe", input: { what, ...args } };
  const { body } = await at.http<Invocation>("POST", "/v1/invocations?wait=30", call);
  expect(body, JSON.stringify(body)).toMatchObject({ status: "succeeded" });
  const { structured_output } = body.result as unknown as {
    structured_output: { display: { data: { found: T } } };
  };
  return structured_output.display.data.found;
}

async function readRow(at: TestGateway, name: string): Promise<PluginView> {
  const { body } = await at.http<{ items: PluginView[] }>("GET", "/v1/plugins");
  return body.items.find((plugin) => plugin.name === name)!;
}

/** The pids of the plugin on the host: the processes whose sandbox contains its state folder. */
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
  address = `localhost:${(server.address() as AddressInfo).port}`;
  const home = mkdtempSync(join(tmpdir(), "backplane-e2e-"));
  writeFileSync(join(home, "backplane.toml"), `[egress]\nallow_private = ["${address}"]\n`);
  gateway = await startTestGateway({ home, env: { ACME_TOKEN: "of the gateway" } });
  const installed = await gateway.cli(
    "plugin",
    "install",
    writeKernelPluginFolder("prober", PROBER),
    "--yes",
  );
  expect(installed.code, installed.stderr).toBe(0);
});
afterAll(async () => {
  await gateway.dispose();
  server.close();
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** Sensitive files of the gateway, by their path on the host. */
const VALUABLE = [
  "admin.token",
  "secret.key",
  "store.db",
  "backplane.toml",
  "plugins",
  "blobs",
  "gateway.json",
];

test("reads only its package, its host program and its own folder", async () => {
  expect(await readRow(gateway, "prober")).toMatchObject({
    mode: "hosted",
    status: "loaded",
    trusted: false,
  });
  const hidden = [...VALUABLE.map((name) => join(gateway.home, name)), gateway.home, folders[0]!];
  for (const path of [...hidden, "/etc/shadow", "/etc/hostname", "/root", "/home", "/var", "/run", "/sys"]) {
    expect([path, await probe("read", { path })]).toEqual([path, { refused: "ENOENT" }]);
    expect([path, await probe("list", { path })]).toEqual([path, { refused: "ENOENT" }]);
  }
  // The sandbox's own file, which contains no user of the host.
  const { got } = await probe("read", { path: "/etc/passwd" });
  expect(got?.match(/^[^:]+/gm)).toEqual(["plugin", "nobody"]);
  expect(await probe("list", { path: "/sandbox" })).toEqual({
    got: ["host", "node", "scratch", "state"],
  });
  expect(await probe("list", { path: "/plugin" })).toEqual({ got: ["package.json", "plugin.mjs"] });
  expect(await probe("cwd")).toBe("/plugin");
});

test("has a clean environment and sees and signals no process but its own", async () => {
  expect(await probe("env")).toEqual({
    PATH: "/usr/local/bin:/usr/bin:/bin",
    HOME: "/sandbox/state",
    TMPDIR: "/sandbox/scratch",
    LANG: "C.UTF-8",
  });
  const command_lines = await probe<string[]>("processes");
  // PID 1 has erased its command line, which named paths of the host.
  expect(command_lines.map((line) => line.split("\0")[0])).toEqual(["", "/sandbox/node"]);
  expect(await probe("signal", { pid: gateway.pid })).toEqual({ refused: "ESRCH" });
  const status = await probe<string>("status");
  for (const held of [/^Seccomp:\s*2$/m, /^CapEff:\s*0+$/m, /^CapBnd:\s*0+$/m, /^NoNewPrivs:\s*1$/m]) {
    expect(status).toMatch(held);
  }
  expect((await probe("mount")).refused).toContain("mount");
});

test("writes only to its own folder, at a fixed path, and to scratch", async () => {
  for (const path of ["/x", "/plugin/x", "/plugin/plugin.mjs", "/sandbox/x", "/sandbox/host/x", "/usr/x"]) {
    expect([path, await probe("write", { path, text: "x" })]).toEqual([path, { refused: "EROFS" }]);
  }
  const outside = [join(gateway.home, "x"), join(gateway.home, "plugins/state/x"), "/var/tmp/x"];
  for (const path of outside) {
    expect([path, await probe("write", { path, text: "x" })]).toEqual([path, { refused: "ENOENT" }]);
  }
  for (const path of ["/tmp/x", "/sandbox/state/note"]) {
    expect(await probe("write", { path, text: "kept" })).toEqual({ got: "done" });
  }
  expect(await probe("stateDir")).toBe("/sandbox/state");
  expect(readFileSync(join(gateway.home, "plugins/state/prober/note"), "utf8")).toBe("kept");
});

test("has no network by default, and reaches only the admin's allowed_domains until they are removed", async () => {
  const { port } = server.address() as AddressInfo;
  const expectNoNetwork = async () => {
    expect(await probe("dial", { host: "127.0.0.1", port })).toEqual({ refused: "ECONNREFUSED" });
    expect(await probe("dial", { host: "1.1.1.1", port: 443 })).toEqual({ refused: "ECONNREFUSED" });
    // A socket that is not connected gets no error when nothing receives its datagram.
    expect(await probe("datagram", { host: "1.1.1.1", port: 53 })).toEqual({ got: "sent" });
    await expect.poll(() => gateway.log()).toMatch(/"host":"1.1.1.1","port":53,"reason":"direct.datagram"/);
    expect((await probe("resolve", { name: "example.com" })).refused).toMatch(/^E/);
    expect((await probe("page", { url: `http://${address}/` })).refused).toMatch(/ECONNREFUSED/);
    expect((await probe("dial", { path: join(gateway.home, "x.sock") })).refused).toBe("ENOENT");
  };
  await expectNoNetwork();
  const allow = async (names: string[]) => {
    const key = "plugin.prober.allowed_domains";
    const { code, stderr } = await gateway.cli("config", "set", key, JSON.stringify(names));
    expect(code, stderr).toBe(0);
  };
  await allow([address]);
  await expect.poll(() => probe("page", { url: `http://${address}/` })).toEqual({ got: "from outside" });
  expect((await probe("page", { url: "http://evil.test/" })).got).not.toBe("from outside");
  expect(await probe("dial", { host: "1.1.1.1", port: 443 })).toEqual({ refused: "ECONNREFUSED" });
  expect(gateway.log()).toMatch(/"host":"evil.test".*refused a connection of a plugin/);
  await allow([]);
  await expect.poll(async () => (await probe("page", { url: `http://${address}/` })).refused).toBeDefined();
  await expectNoNetwork();
});

test("keeps its state across a reload, a switch to inline, a restart and kill -9, which leaves no process behind", async () => {
  const path = "/sandbox/state/note";
  expect(await probe("write", { path, text: "kept" })).toEqual({ got: "done" });
  expect((await gateway.cli("plugin", "reload", "prober")).code).toBe(0);
  expect(await probe("read", { path })).toEqual({ got: "kept" });

  expect((await gateway.cli("plugin", "trust", "prober", "--yes")).code).toBe(0);
  const state_folder = await probe<string>("stateDir");
  expect(state_folder).toBe(join(gateway.home, "plugins/state/prober"));
  expect(await probe("write", { path: join(state_folder, "inline"), text: "by the gateway's user" })).toEqual(
    {
      got: "done",
    },
  );
  expect((await gateway.cli("plugin", "trust", "prober", "--revoke")).code).toBe(0);
  // The plugin still owns a file that it wrote while it ran inline.
  expect(await probe("write", { path: "/sandbox/state/inline", text: "mine" })).toEqual({ got: "done" });

  await expect.poll(() => hostProcesses(gateway).length).toBe(1);
  const { home } = gateway;
  const pids = hostProcesses(gateway);
  await gateway.kill9();
  await eventually(() => pids.every((pid) => !isAlive(pid)), 5_000, "the plugin is gone with its gateway");
  expect(hostProcesses(gateway)).toEqual([]);
  gateway = await startTestGateway({ home });
  expect(await probe("read", { path })).toEqual({ got: "kept" });
  expect(await probe("read", { path: "/sandbox/state/inline" })).toEqual({ got: "mine" });
});

test("is confined when its folder is linked, even if the gateway's home is inside that folder", async () => {
  const folder = writeKernelPluginFolder("prober", PROBER);
  chmodSync(folder, 0o755);
  const home = join(folder, "home");
  mkdirSync(home);
  const inside = await startTestGateway({ home });
  try {
    const installed = await inside.cli("plugin", "install", folder, "--editable", "--yes");
    expect(installed.code, installed.stderr).toBe(0);
    expect(await probe("list", { path: "/plugin" }, inside)).toEqual({
      got: ["home", "package.json", "plugin.mjs"],
    });
    expect(await probe("list", { path: "/plugin/home" }, inside)).toEqual({ got: [] });
    expect(await probe("write", { path: "/plugin/home/x", text: "x" }, inside)).toEqual({ refused: "EROFS" });
    // The folder is closed to other users: the plugin runs from a copy, without the home.
    chmodSync(folder, 0o700);
    expect((await inside.cli("plugin", "reload", "prober")).code).toBe(0);
    expect(await probe("list", { path: "/plugin" }, inside)).toEqual({ got: ["package.json", "plugin.mjs"] });
  } finally {
    await inside.dispose();
  }
});

test("does not load without a sandbox and reports why, and runs unconfined if the sandbox is disabled", async () => {
  const home = mkdtempSync(join(tmpdir(), "backplane-e2e-"));
  // A file in place of the sandbox's folder, so that the sandbox cannot be opened.
  writeFileSync(join(home, "sandbox"), "");
  const source = writeKernelPluginFolder("prober", PROBER);
  const without_sandbox = await startTestGateway({ home });
  try {
    await without_sandbox.cli("plugin", "install", source, "--yes");
    const { error, mode, status } = await readRow(without_sandbox, "prober");
    expect({ mode, status }).toEqual({ mode: "hosted", status: "failed" });
    expect(error).toMatch(/^prober can only run in the sandbox \(sandbox\.unavailable\)\./);
    expect(processesWith("dist/host/main.js").filter((pid) => ppidOf(pid) === without_sandbox.pid)).toEqual(
      [],
    );
    await without_sandbox.stop();
    const unconfined = await startTestGateway({ home, env: { BACKPLANE_SANDBOX: "false" } });
    try {
      expect(await readRow(unconfined, "prober")).toMatchObject({
        mode: "hosted",
        status: "loaded",
        error: null,
      });
      expect(await probe("stateDir", {}, unconfined)).toBe(join(home, "plugins/state/prober"));
      expect(await probe("list", { path: home }, unconfined)).toMatchObject({ got: expect.anything() });
    } finally {
      await unconfined.dispose();
    }
  } finally {
    await without_sandbox.dispose();
  }
});

function ppidOf(pid: number): number {
  try {
    return Number(/^PPid:\s*(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
  } catch {
    return 0;
  }
}
