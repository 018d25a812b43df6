/** Pushes signatures to a registry without the referrers API. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { openAsLayout } from "../../src/oci/open-layout.ts";
import { packLayout } from "../../src/oci/pack-layout.ts";
import { pushLayout } from "../../src/oci/push-layout.ts";
import { referrersTag } from "../../src/oci/registry-client.ts";
import { sha256 } from "../support/scripted-registry.ts";
import { useRegistries } from "./use-registries.ts";

const { registry, connect, referenceTo } = useRegistries();

let folder: string;
let layout: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "push-layout-"));
  layout = join(folder, "layout");
  await packLayout(resolve("examples/hello-tool"), layout);
});
afterAll(() => rmSync(folder, { recursive: true }));
beforeEach(() => {
  registry.referrers = false;
});

const LIMITS = { manifest_bytes: 200_000 };
const OTHER = { mediaType: "application/vnd.oci.image.manifest.v1+json", digest: sha256("other"), size: 5 };

async function push(): Promise<string> {
  const { store } = await openAsLayout(layout, join(folder, "unused"));
  const pushed = await pushLayout(connect({ limits: LIMITS }), layout, store, referenceTo(), [{ by: "us" }]);
  return referrersTag(pushed.manifest_digest);
}

function entriesOf(tag: string): string[] {
  const index = JSON.parse(registry.manifests.get(tag)!.toString()) as { manifests: { digest: string }[] };
  return index.manifests.map(({ digest }) => digest);
}

const isTag = (path: string) => /\/manifests\/sha256-/.test(path);
const etagOf = (path: string) => {
  const bytes = registry.manifests.get(path.slice(path.lastIndexOf("/") + 1));
  return bytes === undefined ? null : `"${sha256(bytes)}"`;
};

/**
 * Simulates a registry that evaluates request conditions while another client writes the list at the first upload. With
 * `refuse_all`, the registry refuses every condition and no other client writes.
 */
function simulateConditionalUploads(seen_conditions: unknown[], refuse_all = false): void {
  registry.intercept = ({ method, headers }, response, { pathname }) => {
    if (!isTag(pathname)) return false;
    const etag = etagOf(pathname);
    if (method === "GET" && etag !== null) response.setHeader("etag", etag);
    if (method !== "PUT") return false;
    const { "if-match": match, "if-none-match": none } = headers;
    seen_conditions.push(match ?? none ?? null);
    if (seen_conditions.length === 1 && !refuse_all)
      registry.putManifest({ manifests: [OTHER] }, pathname.slice(pathname.lastIndexOf("/") + 1));
    const current = etagOf(pathname);
    const failed = (match !== undefined && match !== current) || (none === "*" && current !== null);
    if (!failed && !(refuse_all && (match ?? none) !== undefined)) return false;
    response.writeHead(412).end();
    return true;
  };
}

test("keeps the entry that another client adds between this client's read and its upload", async () => {
  const conditions: unknown[] = [];
  simulateConditionalUploads(conditions);
  const entries = entriesOf(await push());
  expect(entries).toHaveLength(2);
  expect(entries).toContain(OTHER.digest);
  const others = sha256(JSON.stringify({ schemaVersion: 2, manifests: [OTHER] }));
  expect(conditions).toEqual(["*", `"${others}"`]);
});

test("uploads without a condition to a registry that refuses every condition", async () => {
  const conditions: unknown[] = [];
  simulateConditionalUploads(conditions, true);
  expect(entriesOf(await push())).toHaveLength(1);
  expect(conditions).toEqual(["*", null]);
});
