import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { codeOf, type PluginCategory } from "@backplane/contract";
import type { PluginNetworkAccess } from "@backplane/ports";
import { type KernelTestOptions, testKernelPlugin } from "@backplane/sdk/testing";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { afterAll, beforeAll, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { systemClock } from "../../src/host/clock.ts";
import { installNetworkGuard } from "../../src/plugins/network-guard.ts";
import { createPluginLoader, type PluginLoaderOptions } from "../../src/plugins/plugin-loader.ts";

/** A plugin that can use every network API of Node. An event selects one by name. */
const PLUGIN = (name: string, category: string, vendor: string) => `
import dgram from "node:dgram";
import http from "node:http";
import net from "node:net";
import tls from "node:tls";

const heard = (socket) => new Promise((done) => {
  socket.once("connect", () => { socket.destroy(); done("connected"); });
  socket.once("error", (error) => done(error.code));
});
const ways = {
  fetch: ({ host, port }) => fetch("http://" + host + ":" + port).then((response) => response.text(), (error) => error.cause?.code ?? error.code),
  http: ({ host, port }) => new Promise((done) => http.get({ host, port }, (response) => { response.resume(); done("connected"); }).once("error", (error) => done(error.code))),
  net: ({ host, port }) => heard(net.connect({ host, port })),
  ports: ({ host, port }) => heard(net.connect(port, host)),
  socket: ({ host, port }) => heard(new net.Socket().connect(port, host)),
  tls: ({ host, port }) => heard(tls.connect({ host, port })),
  unix: () => heard(net.connect("/run/none.sock")),
  udp: ({ host, port }) => { try { dgram.createSocket("udp4").send("x", port, host); return "sent"; } catch (error) { return error.code; } },
  changing: ({ host, port, later_port }) => { let reads = 0; return fetch({ toString: () => "http://" + host + ":" + (reads++ === 0 ? port : later_port) }).then((response) => response.text(), (error) => error.cause?.code); },
  invalid: () => fetch("no url").catch((error) => error.name),
  later: ({ host, port }) => new Promise((done) => setTimeout(() => done(heard(net.connect({ host, port }))), 5)),
};
const early = globalThis.process.env.NEVER ? null : heard(net.connect(Number(${JSON.stringify(vendor)}.split(":")[2]), "127.0.0.1"));

export const plugin = {
  name: ${JSON.stringify(name)}, version: "1.0.0", category: ${JSON.stringify(category)}, subscriptions: () => [],
  configSchema: { type: "object", properties: { base_url: { type: "string", default: ${JSON.stringify(vendor)} } } },
  async onEvent(event, ctx) {
    const { way, ...target } = event.payload;
    if (way === "instances") await ctx.providers.instancesForPlugin(ctx.name);
    const got = way === "early" ? await early : way === "instances" ? "read" : await ways[way](target);
    await ctx.emit("x.${name}.got", { got }, event);
  },
  ...(${JSON.stringify(category)} === "tool" && { onLoad: (ctx) => ctx.registerTool({
    name: "dial", description: "Dials.", parameters: { type: "object" },
    run: async (target) => ({ ok: true, brief: String(await ways.net(target)) }),
  }) }),
};`;

/** The private destinations that the operator allows in backplane.toml. */
const OPENED = { operator_allows: ["127.0.0.1:*", "127.0.0.3:*"] };
const WAYS = ["fetch", "http", "net", "ports", "socket", "tls", "later"];
let server: Server;
let other: Server;
let at: { host: string; port: number };
let elsewhere: { host: string; port: number };
let home: string;

const listen = async (body: string) => {
  const server = createServer((_request, response) => response.end(body));
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  return server;
};
const placeOf = (of: Server) => ({ host: "127.0.0.1", port: (of.address() as AddressInfo).port });

beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), "backplane-guard-"));
  server = await listen("from outside");
  other = await listen("from elsewhere");
  at = placeOf(server);
  elsewhere = placeOf(other);
});
afterAll(() => {
  rmSync(home, { recursive: true, force: true });
  for (const listener of [server, other]) {
    listener.closeAllConnections();
    listener.close();
  }
});

async function load(
  category: PluginCategory,
  network: PluginNetworkAccess,
  options: KernelTestOptions & { vendor?: string; egress?: PluginLoaderOptions["egress"] } = {},
) {
  const name = `dialler-${category}`;
  const dir = mkdtempSync(join(home, "plugin-"));
  mkdirSync(dir, { recursive: true });
  writeFileSync(join(dir, "plugin.mjs"), PLUGIN(name, category, options.vendor ?? "http://127.0.0.1:1"));
  const { egress = {} } = options;
  const loader = createPluginLoader({
    home,
    clock: systemClock(),
    log: createTestLogger(),
    bundled_roots: [],
    egress,
  });
  const entry = { name, version: "1.0.0", category, origin: "local" as const, source: dir, dir };
  const { plugin } = await loader.load({ ...entry, module: join(dir, "plugin.mjs") }, "inline", network);
  /** The plugin in the context of one org. */
  const serve = async (org: KernelTestOptions) => {
    const run = await testKernelPlugin(plugin, { state_dir: home, ...org });
    const go = async (way: string, target: object = at): Promise<unknown> => {
      await run.event(`x.${name}.go`, { way, ...target });
      return (run.emitted.at(-1)!.payload as { got: unknown }).got;
    };
    return { run, go };
  };
  return { ...(await serve(options)), serve };
}

test("refuses connections to hosts that the operator has not named, with every API of Node", async () => {
  const { go, run } = await load("tool", { allowed_domains: [] });
  for (const way of [...WAYS, "unix", "udp", "early"]) {
    expect([way, await go(way)]).toEqual([way, "policy.denied"]);
  }
  expect(await run.tool("dial", at)).toMatchObject({ brief: "policy.denied" });
  // The gateway's own code is not guarded, even while the plugin's code waits.
  expect(await (await fetch(`http://127.0.0.1:${at.port}`)).text()).toBe("from outside");
});

test("allows a named host at the named port", async () => {
  const { go, run } = await load("tool", { allowed_domains: [`127.0.0.1:${at.port}`] }, { egress: OPENED });
  expect(await go("fetch")).toBe("from outside");
  for (const way of ["http", "net", "ports", "socket", "later"]) expect(await go(way)).toBe("connected");
  expect(await run.tool("dial", at)).toMatchObject({ brief: "connected" });
  expect(await go("net", elsewhere)).toBe("policy.denied");
});

test("requests the URL that was checked, and lets the platform reject an invalid one", async () => {
  const { go } = await load("tool", { allowed_domains: [`127.0.0.1:${at.port}`] }, { egress: OPENED });
  expect(await go("changing", { ...at, later_port: elsewhere.port })).toBe("from outside");
  expect(await go("invalid")).toBe("TypeError");
});

test("allows the base_url of a provider's own instances and its vendor, not those of other plugins", async () => {
  const instance = (plugin: string) => ({
    id: "main",
    plugin,
    label: "",
    config: { base_url: `http://127.0.0.1:${elsewhere.port}/v1` },
  });
  const options = {
    providers: [instance("dialler-llm-provider")],
    vendor: `http://127.0.0.1:${at.port}`,
    egress: OPENED,
  };
  const { go } = await load("llm-provider", { allowed_domains: [] }, options);
  expect(await go("fetch")).toBe("from outside");
  expect(await go("net", elsewhere)).toBe("policy.denied");
  await go("instances");
  expect(await go("fetch", elsewhere)).toBe("from elsewhere");
  // Only the configuration of a provider names allowed hosts.
  const tool = await load(
    "tool",
    { allowed_domains: [] },
    { ...options, providers: [instance("dialler-tool")] },
  );
  await tool.go("instances");
  expect([await tool.go("net"), await tool.go("net", elsewhere)]).toEqual(["policy.denied", "policy.denied"]);
});

test("does not share kept-alive connections with plugins that may not use them", async () => {
  const allowed = await load("llm-provider", { allowed_domains: ["127.0.0.1"] }, { egress: OPENED });
  const url = `http://127.0.0.1:${at.port}`;
  for (let i = 0; i < 3; i++) {
    expect(await allowed.go("fetch")).toBe("from outside");
    expect(await (await fetch(url)).text()).toBe("from outside");
  }
});

test("a refused request does not affect concurrent requests of others to the same host", async () => {
  const allowed = await load("llm-provider", { allowed_domains: ["127.0.0.3"] }, { egress: OPENED });
  const denied = await load("tool", { allowed_domains: [] });
  // A separate server, to which no connection is open yet.
  const target = { host: "127.0.0.3", port: at.port };
  const far = await new Promise<Server>((done) => {
    const server = createServer((_request, response) => response.end("from afar"));
    server.listen(0, "127.0.0.3", () => done(server));
  });
  target.port = placeOf(far).port;
  try {
    const url = `http://${target.host}:${target.port}`;
    const results = await Promise.all([
      denied.go("fetch", target),
      ...Array.from({ length: 5 }, () => fetch(url).then((response) => response.text())),
      allowed.go("fetch", target),
    ]);
    expect(results).toEqual(["policy.denied", ...Array<string>(6).fill("from afar")]);
  } finally {
    far.closeAllConnections();
    far.close();
  }
});

test("does not guard gateway code called by a plugin, and installs one guard per process", async () => {
  const guard = installNetworkGuard();
  expect(installNetworkGuard()).toBe(guard);
  const nobody = {
    name: "nobody",
    allows: () => false,
    addresses: async () => [],
    refuseLiteral: () => null,
    refused: () => {},
  };
  // Without fetch, which might reuse an open connection.
  const inside = guard.enter(nobody, () => guard.leave(() => connect(elsewhere.port, elsewhere.host)));
  await once(inside, "connect");
  inside.destroy();
  const refused = await guard
    .enter(nobody, () => fetch(`http://127.0.0.2:${at.port}`))
    .catch((error: Error) => error.cause);
  expect(codeOf(refused)).toBe("policy.denied");
});

verifies("sec.provider-egress", "resolves a name once and connects to the checked address", async () => {
  // The same port on two addresses, only one of which counts as public here.
  const inside: string[] = [];
  const hidden = createServer((_request, response) => response.end("from inside"));
  hidden.on("connection", (socket) => inside.push(socket.localAddress ?? ""));
  await new Promise<void>((done) => hidden.listen(at.port, "127.0.0.66", done));
  let answers: string[][] = [];
  const requested: string[] = [];
  const resolve = async (name: string) => {
    requested.push(name);
    return answers.shift() ?? ["127.0.0.66"];
  };
  const forbidden = (address: string) => (address === "127.0.0.66" ? "private" : null);
  const target = { host: "rebind.test", port: at.port };
  const { go } = await load(
    "llm-provider",
    { allowed_domains: ["rebind.test"] },
    { egress: { resolve, forbidden } },
  );
  try {
    for (const way of ["net", "ports", "socket", "later", "http", "tls"]) {
      // Every later lookup of the name returns a private address.
      answers = [["127.0.0.1"]];
      requested.length = 0;
      const got = await go(way, target);
      expect([way, got]).toEqual([way, way === "tls" ? expect.not.stringMatching("policy") : "connected"]);
      expect(requested).toEqual(["rebind.test"]);
      answers = [];
      expect([way, await go(way, target)]).toEqual([way, "policy.denied"]);
      // One forbidden address is enough to refuse the name.
      answers = [["127.0.0.1", "127.0.0.66"]];
      expect([way, await go(way, target)]).toEqual([way, "policy.denied"]);
    }
    // Checked for the request and again for its connection.
    answers = [["127.0.0.1"]];
    expect(await go("fetch", target)).toBe("policy.denied");
    answers = [["127.0.0.1"], ["127.0.0.1"]];
    expect(await go("fetch", target)).toBe("from outside");
    // The connection is still open, but the name now resolves to a private address, so the request is refused.
    expect(await go("fetch", target)).toBe("policy.denied");
    expect(inside).toEqual([]);
  } finally {
    hidden.closeAllConnections();
    hidden.close();
  }
});

test("refuses private addresses of a named host unless the operator allowed the destination", async () => {
  const { go } = await load("tool", { allowed_domains: ["*"] });
  for (const way of WAYS) expect([way, await go(way)]).toEqual([way, "policy.denied"]);
  for (const host of ["localhost", "LOCALHOST.", "a.localhost", "::1", "0.0.0.0", "169.254.169.254"]) {
    expect([host, await go("net", { host, port: at.port })]).toEqual([host, "policy.denied"]);
  }
});

verifies(
  "sec.provider-egress",
  "limits an allowed private destination to the org of its instance, even on open connections",
  async () => {
    const address = `127.0.0.1:${at.port}`;
    const base_url = `http://${address}/v1`;
    const instance = (allow_private?: string) => ({
      id: "main",
      plugin: "dialler-llm-provider",
      label: "",
      config: { base_url, ...(allow_private === undefined ? {} : { allow_private }) },
    });
    const { serve } = await load("llm-provider", { allowed_domains: [] });
    const ours = await serve({ providers: [instance(address)] });
    const theirs = await serve({ providers: [instance()] });
    const elsewhereOpened = await serve({ providers: [instance(`127.0.0.1:${elsewhere.port}`)] });
    for (const instance of [ours, theirs, elsewhereOpened]) await instance.go("instances");
    for (const way of ["fetch", "http", "net"]) {
      const got = way === "fetch" ? "from outside" : "connected";
      expect([way, await ours.go(way)]).toEqual([way, got]);
      expect([way, await theirs.go(way)]).toEqual([way, "policy.denied"]);
      expect([way, await elsewhereOpened.go(way)]).toEqual([way, "policy.denied"]);
    }
  },
);

test("does not follow redirects, not even to an allowed host", async () => {
  const target = `http://127.0.0.1:${elsewhere.port}/`;
  const moved = createServer((_request, response) => response.writeHead(307, { location: target }).end());
  await new Promise<void>((done) => moved.listen(0, "127.0.0.1", done));
  try {
    const { go } = await load("llm-provider", { allowed_domains: ["127.0.0.1"] }, { egress: OPENED });
    expect(await go("fetch", elsewhere)).toBe("from elsewhere");
    expect(await go("fetch", placeOf(moved))).toBe("policy.denied");
  } finally {
    moved.closeAllConnections();
    moved.close();
  }
});
