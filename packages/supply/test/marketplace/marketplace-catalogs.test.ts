import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BackplaneError } from "@backplane/contract";
import { MARKETPLACE_FORMAT, MarketplaceCatalogSchema } from "@backplane/contract/schema";
import { expect, onTestFinished, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { BUNDLED_CATALOG } from "../../src/marketplace/bundled-catalog.ts";
import {
  createMarketplaceCatalogs,
  MAX_SEARCHES,
  type MarketplaceOptions,
} from "../../src/marketplace/marketplace-catalogs.ts";

const HOUR_MS = 3_600_000;
const ENTRY = {
  id: "notes",
  name: "Notes",
  description: "Keeps notes.",
  status: "available",
  package: { package_id: "acme/notes", version: "1.0.0", exports: [{ id: "note", kind: "tool" }] },
  publisher: { name: "Acme" },
  review: { status: "reviewed" },
  source: {},
  oci: `oci://registry.example.com/acme/notes@sha256:${"a".repeat(64)}`,
  signature: { key_id: `ed25519:${"b".repeat(32)}`, public_key: "PEM" },
  dependency_lock: [],
  install_policy: {},
  tokens: 90,
};
const catalogOf = (...entries: object[]) => ({ format: MARKETPLACE_FORMAT, name: "Acme", entries });

function createCatalogs(options: Partial<MarketplaceOptions> = {}) {
  const folder = mkdtempSync(join(tmpdir(), "marketplace-"));
  let now = Date.parse("2026-01-01T00:00:00Z");
  const shared = { addresses: null, now: () => now, catalogs: [], mcp_registry: null };
  const opened = createMarketplaceCatalogs({ folder: join(folder, "cache"), ...shared, ...options });
  onTestFinished(() => {
    opened.close();
    rmSync(folder, { recursive: true });
  });
  const wait = (ms: number) => {
    now += ms;
  };
  return { ...opened, wait };
}

async function serve(
  respond: RequestListener,
): Promise<{ url: string; requests: string[]; stop(): Promise<void> }> {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    requests.push(request.url ?? "");
    respond(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const stop = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  onTestFinished(stop);
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests, stop };
}

const respondWithJson =
  (value: unknown): RequestListener =>
  (_request, response) =>
    void response.end(JSON.stringify(value));

verifies("api.marketplace", "bundles entries that do not claim an unpublished artifact", async () => {
  const [bundled] = await createCatalogs().read();
  expect(bundled!.entries.map(({ id }) => id)).toEqual(["codex-harness", "opencode-harness", "thread-weave"]);
  for (const entry of bundled!.entries) {
    expect(entry.status).toBe("contract-ready");
    expect(entry.reason).not.toBeNull();
    expect(entry.contract!.requirements.length).toBeGreaterThan(0);
    expect(entry.oci).toBeNull();
  }
  expect(MarketplaceCatalogSchema.safeParse(BUNDLED_CATALOG).success).toBe(true);
});

verifies("api.marketplace", "accepts an available entry only with digest, key, lock and review", () => {
  const problemOf = (change: object) => {
    const parsed = MarketplaceCatalogSchema.safeParse(catalogOf({ ...ENTRY, ...change }));
    return parsed.success ? null : parsed.error.issues[0]!.path.join(".");
  };
  expect(problemOf({})).toBeNull();
  expect(problemOf({ oci: null })).toBe("entries.0.oci");
  expect(problemOf({ oci: "oci://registry.example.com/acme/notes:1.0.0" })).toBe("entries.0.oci");
  expect(problemOf({ signature: null })).toBe("entries.0.signature");
  expect(problemOf({ dependency_lock: null })).toBe("entries.0.dependency_lock");
  expect(problemOf({ review: { status: "unreviewed" } })).toBe("entries.0.review.status");
  expect(problemOf({ status: "contract-ready" })).toBe("entries.0.reason");
  expect(problemOf({ surprise: 1 })).toBe("entries.0");
});

test("reads a catalog file at every request and reports why one cannot be used", async () => {
  const folder = mkdtempSync(join(tmpdir(), "catalog-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "catalog.json");
  writeFileSync(file, JSON.stringify(catalogOf(ENTRY)));
  const catalogs = createCatalogs({ catalogs: [file, join(folder, "missing.json")] });
  const [, good, missing] = await catalogs.read();
  expect(good).toMatchObject({ origin: { name: "Acme", problem: null }, entries: [{ id: "notes" }] });
  expect(missing).toMatchObject({ origin: { problem: expect.stringContaining("ENOENT") }, entries: [] });
  writeFileSync(file, JSON.stringify(catalogOf(ENTRY, ENTRY)));
  expect((await catalogs.read())[1]!.origin.problem).toContain("two entries have the same id");
});

test("keeps a copy of a catalog for an hour, and uses an old one while the URL cannot be read", async () => {
  const server = await serve(respondWithJson(catalogOf(ENTRY)));
  const catalogs = createCatalogs({ catalogs: [`${server.url}/catalog.json`] });
  const readCatalog = async () => (await catalogs.read())[1]!;
  expect(await readCatalog()).toMatchObject({ origin: { stale: false }, entries: [{ id: "notes" }] });
  await readCatalog();
  expect(server.requests).toHaveLength(1);
  catalogs.wait(HOUR_MS);
  await readCatalog();
  expect(server.requests).toHaveLength(2);
  await server.stop();
  catalogs.wait(HOUR_MS);
  expect(await readCatalog()).toMatchObject({
    origin: {
      stale: true,
      fetched_at: "2026-01-01T01:00:00.000Z",
      problem: expect.stringContaining("127.0.0.1"),
    },
    entries: [{ id: "notes" }],
  });
});

test("refuses redirects, endless bodies and addresses that are not allowed", async () => {
  const redirect = await serve(
    (_request, response) => void response.writeHead(302, { location: "/x" }).end(),
  );
  const endless = await serve((_request, response) => {
    const more = () => {
      while (response.writable && response.write(Buffer.alloc(65_536, 32)));
    };
    response.on("drain", more);
    more();
  });
  const catalogs = createCatalogs({ catalogs: [`${redirect.url}/c.json`, `${endless.url}/c.json`] });
  const [, first, second] = await catalogs.read();
  expect(first!.origin.problem).toContain("returned HTTP 302");
  expect(redirect.requests).toEqual(["/c.json"]);
  expect(second!.origin.problem).toContain("more than");
  const denied = createCatalogs({
    catalogs: [`${redirect.url}/c.json`],
    addresses: () =>
      Promise.reject(new BackplaneError("policy.denied", "Private addresses are not allowed.")),
  });
  expect((await denied.read())[1]!.origin.problem).toBe("Private addresses are not allowed.");
  expect(redirect.requests).toHaveLength(1);
});

const LISTED = {
  name: "io.github.acme/weather",
  description: "Weather\u202e of \u0000today",
  version: "1.2.0",
  repository: { url: "https://github.com/acme/weather", source: "github" },
  packages: [
    {
      registryType: "npm",
      identifier: "@acme/weather",
      version: "1.2.0",
      environmentVariables: [
        { name: "WEATHER_KEY", isRequired: true, isSecret: true },
        { name: "BAD NAME; rm", isRequired: true },
        { name: "OPTIONAL" },
      ],
    },
    { registryType: "pypi", identifier: "acme-weather", version: "1.2.0" },
    { registryType: "npm", identifier: "--help; curl evil", version: "1" },
    { registryType: "nuget", identifier: "Acme.Weather", version: "1.2.0" },
  ],
  remotes: [
    { type: "streamable-http", url: "https://mcp.acme.example/mcp" },
    { type: "streamable-http", url: "https://{tenant}.acme.example/mcp" },
    { type: "streamable-http", url: "https://x.example/$(id)" },
    { type: "streamable-http", url: "https://x.example/;reboot" },
    { type: "streamable-http", url: "https://x.example/|sh" },
    { type: "streamable-http", url: "https://x.example/?a=1&sh" },
  ],
};

test("turns servers of a public registry into install commands, without harmful text", async () => {
  const server = await serve(
    respondWithJson({ servers: [{ server: LISTED, _meta: {} }, LISTED, { name: 7 }, null] }),
  );
  const catalogs = createCatalogs({ mcp_registry: server.url });
  const { items, registry } = await catalogs.searchServers("weather & more");
  expect(server.requests).toEqual(["/v0/servers?search=weather+%26+more&version=latest&limit=30"]);
  expect(registry).toMatchObject({ stale: false, problem: null });
  expect(items).toHaveLength(2);
  for (const item of items)
    expect(item).toEqual({
      name: "io.github.acme/weather",
      description: "Weather\ufffd of \ufffdtoday",
      version: "1.2.0",
      repository: "https://github.com/acme/weather",
      sources: [
        "npm:@acme/weather@1.2.0",
        "pypi:acme-weather==1.2.0",
        "--mcp https://mcp.acme.example/mcp weather",
      ],
      variables: [{ name: "WEATHER_KEY", secret: true }],
    });
});

test("returns the reason when the registry cannot be read and there is no copy of the search", async () => {
  const server = await serve((_request, response) => void response.writeHead(503).end());
  const catalogs = createCatalogs({ mcp_registry: server.url });
  expect(await catalogs.searchServers("x")).toMatchObject({
    items: [],
    registry: { stale: true, fetched_at: null, problem: expect.stringContaining("503") },
  });
  expect(await createCatalogs().searchServers("x")).toEqual({ items: [], registry: null });
});

verifies(
  "api.marketplace",
  "keeps the copies of a limited number of searches in a folder of their own",
  async () => {
    const server = await serve(respondWithJson({ servers: [] }));
    const folder = mkdtempSync(join(tmpdir(), "backplane-searches-"));
    const catalogs = createCatalogs({ mcp_registry: server.url, folder });
    for (let index = 0; index < MAX_SEARCHES + 5; index++) await catalogs.searchServers(`text ${index}`);
    expect(readdirSync(join(folder, "searches"))).toHaveLength(MAX_SEARCHES);
    rmSync(folder, { recursive: true });
  },
);
