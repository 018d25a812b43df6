/** Many installations of one package version at the same time, over HTTP. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Writable } from "node:stream";
import { packFolder } from "@backplane/supply";
import { afterAll, beforeAll, expect, test } from "vitest";
import { writeSamplePackage } from "../support/sample-package.ts";
import { startApi, type TestApi, type TestResponse } from "../support/start-api.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.close());

async function packVersion(version: string, remark: string): Promise<Buffer> {
  const chunks: Buffer[] = [];
  const sink = new Writable({
    write(chunk: Buffer, _encoding, done) {
      chunks.push(chunk);
      done();
    },
  });
  await packFolder(writeSamplePackage(api.home, version, remark), sink);
  return Buffer.concat(chunks);
}

const upload = (body: Buffer) =>
  api.call("POST", "/v1/plugin-packages", { body, headers: { "content-type": "application/octet-stream" } });

const treeOf = (digest: string) => join(api.home, "blobs", "sha256", digest.slice("sha256:".length), "tree");

/** Counts the responses by status; a 500 is never allowed, because a caller cannot handle it. */
function count(answers: readonly TestResponse[]): Record<number, number> {
  const counts: Record<number, number> = {};
  for (const { status, json } of answers) {
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
    const answers = await Promise.all(Array.from({ length: racers }, () => upload(archive)));
    expect(count(answers)).toEqual({ 201: 1, 200: racers - 1 });
    expect(new Set(answers.map(({ json }) => json.id)).size).toBe(1);
    expect(existsSync(treeOf(answers[0]!.json.digest))).toBe(true);
  },
);

test.each([20, 100])(
  "accepts only one of two archives in %i concurrent installs of the same version",
  async (racers) => {
    const [first, other] = [
      await packVersion(`2.0.${racers}`, "one"),
      await packVersion(`2.0.${racers}`, "other"),
    ];
    const before = readdirSync(join(api.home, "blobs", "sha256")).length;
    const answers = await Promise.all(
      Array.from({ length: racers }, (_, index) => upload(index % 2 === 0 ? first : other)),
    );
    expect(count(answers)).toEqual({ 201: 1, 200: racers / 2 - 1, 409: racers / 2 });
    const created = answers.find(({ status }) => status === 201)!.json;
    expect(existsSync(treeOf(created.digest))).toBe(true);
    // The bytes of the refused installs belong to no package and were removed.
    expect(readdirSync(join(api.home, "blobs", "sha256"))).toHaveLength(before + 1);
    for (const { status, json } of answers)
      if (status === 409) expect(json.error.code).toBe("package.conflict");
  },
);

test("never leaves a row without files when a package is removed and installed concurrently", async () => {
  const archive = await packVersion("3.0.0", "");
  for (let round = 0; round < 10; round++) {
    const { id } = (await upload(archive)).json;
    const answers = await Promise.all([
      ...Array.from({ length: 6 }, () => upload(archive)),
      api.call("DELETE", `/v1/plugin-packages/${id}`),
      ...Array.from({ length: 6 }, () => upload(archive)),
    ]);
    count(answers);
    const { items } = (await api.call("GET", "/v1/plugin-packages?limit=200")).json;
    for (const { digest } of items) expect(existsSync(treeOf(digest)), `round ${round}`).toBe(true);
  }
});
