/** Files that an MCP server writes to its scratch folder and mentions in its answer. */
import { hash } from "node:crypto";
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Json, JsonObject } from "@backplane/contract";
import type { ArtifactFiles } from "@backplane/ports";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { findScratchPaths } from "../../src/artifacts/collect-server-files.ts";
import { createConfinedTestRunner } from "../support/confined-runner.ts";
import type { RequestChange } from "../support/request.ts";
import { createTestRunner, type TestRunner } from "../support/runner.ts";
import { createEmptyFolder } from "../support/sandbox.ts";

const PNG = Buffer.from("89504e470d0a1a0a0000", "hex");
const sha256 = (content: string | Buffer) => hash("sha256", content, "hex");

function createServerFilesRunner(
  limits = {},
  create: (options: object) => TestRunner = createConfinedTestRunner,
) {
  const stored = new Map<string, Uint8Array>();
  const artifacts: ArtifactFiles = {
    store: async (digest, bytes) => void stored.set(digest, bytes),
    open: async () => null,
    sweep: async () => 0,
  };
  const test_runner = create({ artifacts, limits });
  const callFiles = async (input: JsonObject, change: RequestChange = {}) => {
    const outcome = await test_runner.run({
      protocol: "mcp.stdio",
      entrypoint: ["node", "./mcp.mjs", "plain"],
      export_id: "mcp_fixture_files",
      native_name: "files",
      class: "isolated",
      grant: { filesystem: "scratch" },
      input,
      ...change,
    });
    expect(outcome).toMatchObject({ status: "succeeded", violations: 0 });
    return (outcome.result as { content: JsonObject[] }).content;
  };
  return { callFiles, stored, test_runner };
}

const SANDBOX = { roots: ["/tmp", "/sandbox/scratch"] } as const;

const textResult = (text: string): JsonObject => ({ content: [{ type: "text", text }] });
const fileBlock = (path: string, content: string | Buffer): JsonObject => ({
  type: "file",
  transport: "artifact",
  path,
  bytes: content.length,
  sha256: sha256(content),
});

verifies("server.files", "stores a file that the answer mentions by path, URI or resource link", async () => {
  const { callFiles, stored } = createServerFilesRunner();
  for (const answer of [
    textResult("Saved to /tmp/out/report.md."),
    textResult("Saved to file:///sandbox/scratch/out/report.md (new)"),
    { content: [{ type: "resource_link", name: "report", uri: "file:///tmp/out/report.md" }] },
    { content: [], structuredContent: { file: "/tmp/out/report.md" } },
  ]) {
    const content = await callFiles({
      write: { "/tmp/out/report.md": "# Report" },
      answer: answer as JsonObject,
    });
    expect(content.slice(-2)).toEqual([
      fileBlock("out/report.md", "# Report"),
      {
        type: "resource",
        resource: {
          uri: "file:///tmp/out/report.md",
          name: "report.md",
          mimeType: "text/plain",
          text: "# Report",
        },
      },
    ]);
  }
  expect([...stored.keys()]).toEqual([sha256("# Report")]);
});

verifies("server.files", "stores files whose names contain spaces or non-ASCII characters", async () => {
  const { callFiles } = createServerFilesRunner();
  const composed = "b\u00fccher/\u65e5\u672c\u8a9e \u{1f600}.txt";
  const decomposed = "bu\u0308cher.txt";
  const written = { [`/tmp/${composed}`]: "books", [`/tmp/${decomposed}`]: "more" };
  for (const text of [
    `Saved "/tmp/${composed}" and /tmp/${decomposed}.`,
    `Saved \`/tmp/${composed}\`, \u201c/tmp/${decomposed}\u201d`,
    `file://${encodeURI(`/tmp/${composed}`)} and file:///tmp/${encodeURIComponent(decomposed)}`,
    `{"files": ["/tmp/b\\u00fccher/\\u65e5\\u672c\\u8a9e \\ud83d\\ude00.txt", "/tmp/bu\\u0308cher.txt"]}`,
  ]) {
    const content = await callFiles({ write: written, answer: textResult(text) });
    expect(content.slice(1).filter(({ type }) => type === "file")).toEqual([
      { ...fileBlock(composed, "books") },
      { ...fileBlock(decomposed, "more") },
    ]);
    expect(content[2]).toMatchObject({ resource: { uri: `file://${encodeURI(`/tmp/${composed}`)}` } });
  }
});

verifies("server.files", "accepts a path of exactly the maximum length", async () => {
  const { callFiles } = createServerFilesRunner();
  const path = `${"\u65e5".repeat(80)}/${"b".repeat(39)}`;
  const content = await callFiles({ write: { [`/tmp/${path}`]: "x" }, answer: textResult(`/tmp/${path}`) });
  expect(content[1]).toEqual(fileBlock(path, "x"));
  expect(findScratchPaths(`/tmp/${path}b`, SANDBOX)).toEqual([]);
});

verifies("server.files", "shows an image to the model exactly once", async () => {
  const { callFiles } = createServerFilesRunner();
  const data = PNG.toString("base64");
  const written = { write: { "/tmp/a b.png": data }, encoding: "base64" };
  const image = { type: "image", data, mimeType: "image/png" };
  const link = { type: "resource_link", name: "a", uri: "file:///tmp/a%20b.png" };
  expect(await callFiles({ ...written, answer: { content: [link] } })).toEqual([
    link,
    fileBlock("a b.png", PNG),
    image,
  ]);
  expect(await callFiles({ ...written, answer: { content: [image, link] } })).toEqual([
    image,
    link,
    fileBlock("a b.png", PNG),
  ]);
});

verifies(
  "server.files",
  "neither follows links nor leaves the scratch folder, and ignores paths that do not name a file",
  async () => {
    const { callFiles, stored } = createServerFilesRunner();
    const text = "/tmp/link /tmp/../etc/passwd /etc/passwd /tmp/none /var/tmp/other /tmp/folder/";
    const content = await callFiles({
      write: { "/tmp/folder/x": "x" },
      link: { "/tmp/link": "/etc/passwd" },
      answer: textResult(text),
    });
    expect(content).toEqual([
      { type: "text", text },
      {
        type: "text",
        text: "[Files that cannot be opened: /tmp/link: it is reached through a link or has more than one hard link.]",
      },
    ]);
    expect(stored.size).toBe(0);
  },
);

test("does not store a file that is too large or contains a secret", async () => {
  const { callFiles, stored } = createServerFilesRunner({ artifact_bytes: 100 });
  const big = "x".repeat(101);
  const content = await callFiles(
    { write: { "/tmp/big": big, "/tmp/key": "the canary" }, answer: textResult("/tmp/big /tmp/key") },
    { context: { secrets: { token: "canary" } } },
  );
  expect(content.at(-1)!.text).toMatch(/\/tmp\/big: it is larger.*\/tmp\/key: it contains a secret/);
  expect(stored.size).toBe(0);
});

test("stores nothing if the call has no scratch folder", async () => {
  const { callFiles, stored } = createServerFilesRunner();
  const answer = textResult("/tmp/a");
  expect(await callFiles({ answer }, { grant: { filesystem: "none" } })).toEqual(answer.content);
  expect(stored.size).toBe(0);
});

verifies("server.files", "stores files from the temporary folder of a server without a sandbox", async () => {
  const { callFiles, stored, test_runner } = createServerFilesRunner({}, createTestRunner);
  const plain: RequestChange = { class: "worker" };
  await callFiles({ answer: textResult("started") }, plain);
  const name = readdirSync(test_runner.scratch_root).find((each) => each.startsWith("proc_"))!;
  const home = join(test_runner.scratch_root, name);
  const content = await callFiles(
    { write: { [`${home}/a.md`]: "# A" }, answer: textResult(`See ${home}/a.md.`) },
    plain,
  );
  expect(content[1]).toEqual(fileBlock("a.md", "# A"));
  expect(content[2]).toMatchObject({ resource: { uri: `file://${home}/a.md`, text: "# A" } });
  expect([...stored.keys()]).toEqual([sha256("# A")]);
});

test("does not store files of the host for a server without a sandbox", async () => {
  const { callFiles, stored, test_runner } = createServerFilesRunner({}, createTestRunner);
  const outside = join(createEmptyFolder(), "secret.txt");
  writeFileSync(outside, "of the host");
  await callFiles({ answer: textResult("started") }, { class: "worker" });
  const name = readdirSync(test_runner.scratch_root).find((each) => each.startsWith("proc_"))!;
  const link = join(test_runner.scratch_root, name, "link");
  const text = `${outside} ${link}`;
  const content = await callFiles(
    { link: { [link]: outside }, answer: textResult(text) },
    { class: "worker" },
  );
  expect(content.slice(1)).toEqual([
    {
      type: "text",
      text: `[Files that cannot be opened: ${link}: it is reached through a link or has more than one hard link.]`,
    },
  ]);
  expect(stored.size).toBe(0);
});

test("finds each path once and at most 32, in linear time", () => {
  const text = Array.from({ length: 100 }, (_, n) => `/tmp/f${n} /tmp/f${n}`).join(" ");
  expect(findScratchPaths(text, SANDBOX)).toHaveLength(32);
  // The last text is a path as a whole, and also mentions two others.
  const values = [...Array.from({ length: 31 }, (_, n) => `/tmp/f${n}`), "/tmp/a /tmp/b"];
  expect(findScratchPaths(values, SANDBOX).slice(30)).toEqual(["f30", "a /tmp/b"]);
  const hostile: Json = ["/tmp/%".repeat(300_000), '"/tmp/ '.repeat(300_000), "\u201c/tmp/ ".repeat(300_000)];
  const started = performance.now();
  findScratchPaths([...hostile, `/tmp/${"a".repeat(2_000_000)}`], SANDBOX);
  expect(performance.now() - started).toBeLessThan(5_000);
});
