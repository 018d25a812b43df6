import { readdirSync } from "node:fs";
import { ERROR_CODES } from "@backplane/contract";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CHAT_FILES, createChatFiles } from "../../src/pages/static-files.ts";
import { startApi, type TestApi } from "../support/start-api.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.close());

const get = (path: string) => api.call("GET", path, { token: null });

test("serves the chat page without a credential, from its own origin, in under 76 kB", async () => {
  const page = await get("/");
  expect(page.headers["content-type"]).toBe("text/html; charset=utf-8");
  const policy = String(page.headers["content-security-policy"]);
  expect(policy).toMatch(/default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';/);
  expect(policy).not.toMatch(/unsafe/);
  const linked = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map((match) => match[1]!);
  expect(linked.filter((url) => !url.startsWith("/") && !/^(data:,|#)/.test(url))).toEqual([]);
  expect(page.text).not.toMatch(/<script>|<style| style=| on\w+=/);

  let bytes = Buffer.byteLength(page.text);
  for (const name of CHAT_FILES) {
    const file = await get(`/static/chat/${name}`);
    expect(file.status, name).toBe(200);
    expect(file.headers["x-content-type-options"], name).toBe("nosniff");
    if (name === "remedies.json") continue;
    bytes += Buffer.byteLength(file.text);
    expect(file.text, name).not.toMatch(
      /https?:\/\/|@import|innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function/,
    );
    for (const [, from] of file.text.matchAll(/from "([^"]+)"/g))
      expect(CHAT_FILES, `${name} loads ${from}`).toContain(from!.replace("./", ""));
  }
  // Makes each growth of the page beyond this size a visible decision.
  expect(bytes).toBeLessThan(76_000);
});

test("serves every file of the folder and nothing else", async () => {
  const files = readdirSync(new URL("../../static/chat/", import.meta.url));
  expect([...files, "remedies.json"].sort()).toEqual([...CHAT_FILES, "index.html"].sort());
  const read = createChatFiles();
  for (const name of [
    "",
    "index.html",
    "../overview.js",
    "..%2foverview.js",
    "main.js/",
    "__proto__",
    "nothing.js",
  ]) {
    expect(read(name), name).toBeNull();
  }
  for (const name of ["index.html", "nothing.js", "..%2foverview.js", "__proto__"])
    expect((await get(`/static/chat/${name}`)).status, name).toBe(404);
});

test("has a remedy for every error code", () => {
  const { text, type } = createChatFiles()("remedies.json")!;
  expect(type).toBe("application/json");
  const listed = JSON.parse(text) as Record<string, string>;
  expect(Object.keys(listed)).toEqual(Object.keys(ERROR_CODES));
  expect(Object.values(listed).filter((remedy) => remedy === "")).toEqual([]);
});

test("serves the console under a strict content security policy, and only the files of its build", async () => {
  for (const path of ["/console", "/console/approvals", "/console/invocations/inv_1"]) {
    const { status, headers, text } = await get(path);
    expect([status, headers["content-type"], headers["cache-control"]], path).toEqual([
      200,
      "text/html; charset=utf-8",
      "no-cache",
    ]);
    expect(String(headers["content-security-policy"])).not.toMatch(/unsafe|nonce/);
    expect(text).not.toMatch(/<script>|<style| style=| on\w+=/);
    for (const [, file] of text.matchAll(/(?:src|href)="(\/static\/[^"]+)"/g))
      expect((await get(file!)).status, file).toBe(200);
  }
  for (const name of ["index.html", "LICENSES.md", ".fingerprint", "..%2fexplorer%2fLICENSE", "__proto__"])
    expect((await get(`/static/console/${name}`)).status, name).toBe(404);
});

test("caches files of the console whose name has a hash, and compresses them for clients that ask for it", async () => {
  const [, script] = /src="(\/static\/console\/index-[^"]+)"/.exec((await get("/console")).text)!;
  const plain = await get(script!);
  expect(plain.headers["cache-control"]).toBe("public, max-age=31536000, immutable");
  const packed = await api.call("GET", script!, { token: null, headers: { "accept-encoding": "gzip" } });
  expect(packed.headers["content-encoding"]).toBe("gzip");
  expect(Number(packed.headers["content-length"])).toBeLessThan(plain.text.length / 2);
  expect((await get("/static/console/color-scheme.js")).headers["cache-control"]).toBe("no-cache");
});

test("serves the overview page", async () => {
  const page = await get("/overview");
  expect([page.status, page.text.includes("Connecting to the gateway")]).toEqual([200, true]);
});
