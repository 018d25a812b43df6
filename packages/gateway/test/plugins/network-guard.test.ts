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

/** A plugin that can open connections with several APIs of Node. An event selects one by name. */
const pluginSource = (name: string, category: string, vendor: string) => `
import dgram from "node:dgram";
import http from "node:http";
import net from "node:net";
import tls from "node:tls";

const outcomeOf = (socket) => new Promise((done) => {
  socket.once("connect", () => { socket.destroy(); done("connected"); });
  socket.once("error", (error) => done(error.code));
});
class OwnAgent extends http.Agent {}
const own_agent = new OwnAgent({ keepAlive: true });
const apis = {
  agent: ({ host, port }) => new Promise((done) => http.get({ host, port, agent: own_agent }, (response) => {
    response.resume().once("end", () => done(response.req.reusedSocket ? "reused" : "connected"));
  }).once("error", (error) => done(error.code))),
  fetch: ({ host, port }) => fetch("http://" + host + ":" + port).then((response) => response.text(), (error) => error.cause?.code ?? error.code),
  http: ({ host, port }) => new Promise((done) => http.get({ host, port }, (response) => { response.resume(); done("connected"); }).once("error", (error) => done(error.code))),
  net: ({ host, port }) => outcomeOf(net.connect({ host, port })),
  ports: ({ host, port }) => outcomeOf(net.connect(port, host)),
  socket: ({ host, port }) => outcomeOf(new net.Socket().connect(port, host)),
  tls: ({ host, port }) => outcomeOf(tls.connect({ host, port })),
  unix: () => outcomeOf(net.connect("/run/none.sock")),
  udp: ({ host, port }) => { try { dgram.createSocket("udp4").send("x", port, host); return "sent"; } catch (error) { return error.code; } },
  changing: ({ host, port, later_port }) => { let reads = 0; return fetch({ toString: () => "http://" + host + ":" + (reads++ === 0 ? port : later_port) }).then((response) => response.text(), (error) => error.cause?.code); },
  invalid: () => fetch("no url").catch((error) => error.name),
  later: ({ host, port }) => new Promise((done) => setTimeout(() => done(outcomeOf(net.connect({ host, port }))), 5)),
};
const early = globalThis.process.env.NEVER ? null : outcomeOf(net.connect(Number(${JSON.stringify(vendor)}.split(":")[2]), "127.0.0.1"));

export const plugin = {
  name: ${JSON.stringify(name)}, version: "1.0.0", category: ${JSON.stringify(category)}, subscriptions: () => [],
  configSchema: { type: "object", properties: { base_url: { type: "string", default: ${JSON.stringify(vendor)} } } },
  async onEvent(event, ctx) {
    const { api, ...target } = event.payload;
    if (api === "instances") await ctx.providers.instancesForPlugin(ctx.name);
    const outcome = api === "early" ? await early : api === "instances" ? "read" : await apis[api](target);
    await ctx.emit("x.${name}.outcome", { outcome }, event);
  },
  ...(${JSON.stringify(category)} === "tool" && { onLoad: (ctx) => ctx.registerTool({
    name: "dial", description: "Dials.", parameters: { type: "object" },
    run: async (target) => ({ ok: true, brief: String(await apis.net(target)) }),
  }) }),
};`;

/** The private destinations that the operator allows in backplane.toml. */
const ALLOWED_PRIVATE = { operator_allows: ["127.0.0.1:*", "127.0.0.3:*"] };
const APIS = ["agent", "fetch", "http", "net", "ports", "socket", "tls", "later"];
let server: Server;
let other_server: Server;
let server_address: { host: string; port: number };
let other_address: { host: string; port: number };
let home: string;

const listen = async (body: string) => {
  const server = createServer((_request, response) => response.end(body));
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  return server;
};
const addressOf = (listening: Server) => ({
  host: "127.0.0.1",
  port: (listening.address() as AddressInfo).port,
});

beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), "backplane-guard-"));
  server = await listen("from outside");
  other_server = await listen("from elsewhere");
  server_address = addressOf(server);
  other_address = addressOf(other_server);
});
afterAll(() => {
  rmSync(home, { recursive: true, force: true });
  for (const listener of [server, other_server]) {
    listener.closeAllConnections();
    listener.close();
  }
});

async function loadDialer(
  category: PluginCategory,
  network: PluginNetworkAccess,
  options: KernelTestOptions & { vendor?: string; egress?: PluginLoaderOptions["egress"] } = {},
) {
  const name = `dialer-${category}`;
  const dir = mkdtempSync(join(home, "plugin-"));
  mkdirSync(dir, { recursive: true });
  writeFileSync(
    join(dir, "plugin.mjs"),
    pluginSource(name, category, options.vendor ?? "http://127.0.0.1:1"),
  );
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
  /** Loads the plugin into the context of one org. */
  const serve = async (org: KernelTestOptions) => {
    const run = await testKernelPlugin(plugin, { state_dir: home, ...org });
    const connectWith = async (api: string, target: object = server_address): Promise<unknown> => {
      await run.event(`x.${name}.go`, { api, ...target });
      return (run.emitted.at(-1)!.payload as { outcome: unknown }).outcome;
    };
    return { run, connectWith };
  };
  return { ...(await serve(options)), serve };
}

test("refuses connections to hosts that the operator has not allowed, whichever Node API opens them", async () => {
  const { connectWith, run } = await loadDialer("tool", { allowed_domains: [] });
  for (const api of [...APIS, "unix", "udp", "early"]) {
    expect([api, await connectWith(api)]).toEqual([api, "policy.denied"]);
  }
  expect(await run.tool("dial", server_address)).toMatchObject({ brief: "policy.denied" });
  // The gateway's own code is not guarded, even while the plugin's code waits.
  expect(await (await fetch(`http://127.0.0.1:${server_address.port}`)).text()).toBe("from outside");
});

test("allows connections to an allowed host at the allowed port", async () => {
  const { connectWith, run } = await loadDialer(
    "tool",
    { allowed_domains: [`127.0.0.1:${server_address.port}`] },
    { egress: ALLOWED_PRIVATE },
  );
  expect(await connectWith("fetch")).toBe("from outside");
  for (const api of ["agent", "http", "net", "ports", "socket", "later"])
    expect(await connectWith(api)).toBe("connected");
  expect(await connectWith("agent")).toBe("reused");
  expect(await run.tool("dial", server_address)).toMatchObject({ brief: "connected" });
  expect(await connectWith("net", other_address)).toBe("policy.denied");
});

test("requests the URL that was checked, and lets the platform reject an invalid one", async () => {
  const { connectWith } = await loadDialer(
    "tool",
    { allowed_domains: [`127.0.0.1:${server_address.port}`] },
    { egress: ALLOWED_PRIVATE },
  );
  expect(await connectWith("changing", { ...server_address, later_port: other_address.port })).toBe(
    "from outside",
  );
  expect(await connectWith("invalid")).toBe("TypeError");
});

test("allows the base_url of a provider's own instances and its vendor, not those of other plugins", async () => {
  const instance = (plugin: string) => ({
    id: "main",
    plugin,
    label: "",
    config: { base_url: `http://127.0.0.1:${other_address.port}/v1` },
  });
  const options = {
    providers: [instance("dialer-llm-provider")],
    vendor: `http://127.0.0.1:${server_address.port}`,
    egress: ALLOWED_PRIVATE,
  };
  const { connectWith } = await loadDialer("llm-provider", { allowed_domains: [] }, options);
  expect(await connectWith("fetch")).toBe("from outside");
  expect(await connectWith("net", other_address)).toBe("policy.denied");
  await connectWith("instances");
  expect(await connectWith("fetch", other_address)).toBe("from elsewhere");
  // Only the configuration of a provider allows hosts.
  const tool = await loadDialer(
    "tool",
    { allowed_domains: [] },
    { ...options, providers: [instance("dialer-tool")] },
  );
  await tool.connectWith("instances");
  expect([await tool.connectWith("net"), await tool.connectWith("net", other_address)]).toEqual([
    "policy.denied",
    "policy.denied",
  ]);
});

test("does not share kept-alive connections with plugins that may not use them", async () => {
  const allowed = await loadDialer(
    "llm-provider",
    { allowed_domains: ["127.0.0.1"] },
    { egress: ALLOWED_PRIVATE },
  );
  const denied = await loadDialer("tool", { allowed_domains: [] });
  const url = `http://127.0.0.1:${server_address.port}`;
  for (let i = 0; i < 3; i++) {
    expect(await allowed.connectWith("fetch")).toBe("from outside");
    expect(await denied.connectWith("fetch")).toBe("policy.denied");
    expect(await (await fetch(url)).text()).toBe("from outside");
  }
});

test("does not let a refused request affect concurrent requests by others to the same host", async () => {
  const allowed = await loadDialer(
    "llm-provider",
    { allowed_domains: ["127.0.0.3"] },
    { egress: ALLOWED_PRIVATE },
  );
  const denied = await loadDialer("tool", { allowed_domains: [] });
  // A separate server, to which no connection is open yet.
  const target = { host: "127.0.0.3", port: server_address.port };
  const separate = await new Promise<Server>((done) => {
    const server = createServer((_request, response) => response.end("from afar"));
    server.listen(0, "127.0.0.3", () => done(server));
  });
  target.port = addressOf(separate).port;
  try {
    const url = `http://${target.host}:${target.port}`;
    const results = await Promise.all([
      denied.connectWith("fetch", target),
      ...Array.from({ length: 5 }, () => fetch(url).then((response) => response.text())),
      allowed.connectWith("fetch", target),
    ]);
    expect(results).toEqual(["policy.denied", ...Array<string>(6).fill("from afar")]);
  } finally {
    separate.closeAllConnections();
    separate.close();
  }
});

test("does not guard gateway code called by a plugin, and installs one guard per process", async () => {
  const guard = installNetworkGuard();
  expect(installNetworkGuard()).toBe(guard);
  const no_access = {
    name: "no_access",
    allows: () => false,
    addresses: async () => [],
    refuseLiteral: () => null,
    recordRefusal: () => {},
  };
  // Without fetch, which might reuse an open connection.
  const inside = guard.enter(no_access, () =>
    guard.leave(() => connect(other_address.port, other_address.host)),
  );
  await once(inside, "connect");
  inside.destroy();
  const refused = await guard
    .enter(no_access, () => fetch(`http://127.0.0.2:${server_address.port}`))
    .catch((error: Error) => error.cause);
  expect(codeOf(refused)).toBe("policy.denied");
});

verifies("sec.provider-egress", "connects only to the checked addresses of a name", async () => {
  // The same port on two addresses, only one of which counts as public here.
  const private_connections: string[] = [];
  const private_server = createServer((_request, response) => response.end("from inside"));
  private_server.on("connection", (socket) => private_connections.push(socket.localAddress ?? ""));
  await new Promise<void>((done) => private_server.listen(server_address.port, "127.0.0.66", done));
  let lookup_results: string[][] = [];
  const requested: string[] = [];
  const resolve = async (name: string) => {
    requested.push(name);
    return lookup_results.shift() ?? ["127.0.0.66"];
  };
  const forbidden = (address: string) => (address === "127.0.0.66" ? "private" : null);
  const target = { host: "rebind.test", port: server_address.port };
  const { connectWith } = await loadDialer(
    "llm-provider",
    { allowed_domains: ["rebind.test"] },
    { egress: { resolve, forbidden } },
  );
  try {
    for (const api of ["net", "ports", "socket", "later", "http", "tls"]) {
      // Every later lookup of the name returns a private address.
      lookup_results = [["127.0.0.1"]];
      requested.length = 0;
      const outcome = await connectWith(api, target);
      expect([api, outcome]).toEqual([
        api,
        api === "tls" ? expect.not.stringMatching("policy") : "connected",
      ]);
      expect(requested).toEqual(["rebind.test"]);
      lookup_results = [];
      expect([api, await connectWith(api, target)]).toEqual([api, "policy.denied"]);
      // One forbidden address is enough to refuse the name.
      lookup_results = [["127.0.0.1", "127.0.0.66"]];
      expect([api, await connectWith(api, target)]).toEqual([api, "policy.denied"]);
    }
    for (const [api, outcome] of [
      ["fetch", "from outside"],
      ["agent", "connected"],
    ] as const) {
      // Checked for the request and again for its connection.
      lookup_results = [["127.0.0.1"]];
      expect([api, await connectWith(api, target)]).toEqual([api, "policy.denied"]);
      lookup_results = [["127.0.0.1"], ["127.0.0.1"]];
      expect([api, await connectWith(api, target)]).toEqual([api, outcome]);
      // The connection is still open, but the name now resolves to a private address, so the request is refused.
      expect([api, await connectWith(api, target)]).toEqual([api, "policy.denied"]);
    }
    expect(private_connections).toEqual([]);
  } finally {
    private_server.closeAllConnections();
    private_server.close();
  }
});

test("refuses private addresses of an allowed host if the operator has not allowed the destination", async () => {
  const { connectWith } = await loadDialer("tool", { allowed_domains: ["*"] });
  for (const api of APIS) expect([api, await connectWith(api)]).toEqual([api, "policy.denied"]);
  for (const host of ["localhost", "LOCALHOST.", "a.localhost", "::1", "0.0.0.0", "169.254.169.254"]) {
    expect([host, await connectWith("net", { host, port: server_address.port })]).toEqual([
      host,
      "policy.denied",
    ]);
  }
});

verifies(
  "sec.provider-egress",
  "limits an allowed private destination to the org of its instance, even on open connections",
  async () => {
    const address = `127.0.0.1:${server_address.port}`;
    const base_url = `http://${address}/v1`;
    const instance = (allow_private?: string) => ({
      id: "main",
      plugin: "dialer-llm-provider",
      label: "",
      config: { base_url, ...(allow_private === undefined ? {} : { allow_private }) },
    });
    const { serve } = await loadDialer("llm-provider", { allowed_domains: [] });
    const allowed = await serve({ providers: [instance(address)] });
    const not_allowed = await serve({ providers: [instance()] });
    const allowed_elsewhere = await serve({ providers: [instance(`127.0.0.1:${other_address.port}`)] });
    for (const org of [allowed, not_allowed, allowed_elsewhere]) await org.connectWith("instances");
    for (const api of ["agent", "fetch", "http", "net"]) {
      const outcome = api === "fetch" ? "from outside" : "connected";
      expect([api, await allowed.connectWith(api)]).toEqual([api, outcome]);
      expect([api, await not_allowed.connectWith(api)]).toEqual([api, "policy.denied"]);
      expect([api, await allowed_elsewhere.connectWith(api)]).toEqual([api, "policy.denied"]);
    }
  },
);

test("does not follow redirects, not even to an allowed host", async () => {
  const target = `http://127.0.0.1:${other_address.port}/`;
  const redirecting = createServer((_request, response) =>
    response.writeHead(307, { location: target }).end(),
  );
  await new Promise<void>((done) => redirecting.listen(0, "127.0.0.1", done));
  try {
    const { connectWith } = await loadDialer(
      "llm-provider",
      { allowed_domains: ["127.0.0.1"] },
      { egress: ALLOWED_PRIVATE },
    );
    expect(await connectWith("fetch", other_address)).toBe("from elsewhere");
    expect(await connectWith("fetch", addressOf(redirecting))).toBe("policy.denied");
  } finally {
    redirecting.closeAllConnections();
    redirecting.close();
  }
});
