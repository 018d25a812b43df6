/** Many installations of one package version at the same time, over HTTP. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { packToBuffer } from "../support/pack-to-buffer.ts";
import { writeSamplePackage } from "../support/sample-package.ts";
import { startApi, type TestApi, type TestResponse } from "../support/start-api.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.close());

const packVersion = (version: string, remark: string) =>
  packToBuffer(writeSamplePackage(api.home, version, remark));

const upload = (body: Buffer) =>
  api.call("POST", "/v1/plugin-packages", { body, headers: { "content-type": "application/octet-stream" } });

const treeOf = (digest: string) => join(api.home, "blobs", "sha256", digest.slice("sha256:".length), "tree");

/** Counts the responses by status. Throws for a status that a caller cannot handle, such as 500. */
function countByStatus(responses: readonly TestResponse[]): Record<number, number> {
  const counts: Record<number, number> = {};
  for (const { status, json } of responses) {
    if (![200, 201, 204, 404, 409].includes(status))
      throw new Error(`${status}: ${JSON.stringify(json?.error ?? json)}`);
    counts[status] = (counts[status] ?? 0) + 1;
  }
  return counts;
}

test.each([20, 100])(
  "creates a package once for %i concurrent installs of the same bytes",
  async (racers) => {
    const archive = await packVersion(`1.0.${racers}`, "");
    const responses = await Promise.all(Array.from({ length: racers }, () => upload(archive)));
    expect(countByStatus(responses)).toEqual({ 201: 1, 200: racers - 1 });
    expect(new Set(responses.map(({ json }) => json.id)).size).toBe(1);
    expect(existsSync(treeOf(responses[0]!.json.digest))).toBe(true);
  },
);

test.each([20, 100])(
  "accepts only one of two archives in %i concurrent installs of the same version",
  async (racers) => {
    const [first, other] = [
      await packVersion(`2.0.${racers}`, "one"),
      await packVersion(`2.0.${racers}`, "other"),
    ];
    const tree_count = readdirSync(join(api.home, "blobs", "sha256")).length;
    const responses = await Promise.all(
      Array.from({ length: racers }, (_, index) => upload(index % 2 === 0 ? first : other)),
    );
    expect(countByStatus(responses)).toEqual({ 201: 1, 200: racers / 2 - 1, 409: racers / 2 });
    const created = responses.find(({ status }) => status === 201)!.json;
    expect(existsSync(treeOf(created.digest))).toBe(true);
    // The bytes of the refused installs belong to no package and were removed.
    expect(readdirSync(join(api.home, "blobs", "sha256"))).toHaveLength(tree_count + 1);
    for (const { status, json } of responses)
      if (status === 409) expect(json.error.code).toBe("package.conflict");
  },
);

test("never leaves a row without files when a package is removed and installed concurrently", async () => {
  const archive = await packVersion("3.0.0", "");
  for (let round = 0; round < 10; round++) {
    const { id } = (await upload(archive)).json;
    const responses = await Promise.all([
      ...Array.from({ length: 6 }, () => upload(archive)),
      api.call("DELETE", `/v1/plugin-packages/${id}`),
      ...Array.from({ length: 6 }, () => upload(archive)),
    ]);
    countByStatus(responses);
    const { items } = (await api.call("GET", "/v1/plugin-packages?limit=200")).json;
    for (const { digest } of items) expect(existsSync(treeOf(digest)), `round ${round}`).toBe(true);
  }
});
