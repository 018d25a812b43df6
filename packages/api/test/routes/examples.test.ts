import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { startApi, type TestApi } from "../support/start-api.ts";

let api: TestApi;
const folders: string[] = [];
afterEach(async () => {
  await api.close();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

test("lists the examples with the first paragraph of their README, for the admin token only", async () => {
  const examples_folder = mkdtempSync(join(tmpdir(), "examples-"));
  folders.push(examples_folder);
  for (const name of ["second", "first"]) mkdirSync(join(examples_folder, name));
  writeFileSync(join(examples_folder, "first/README.md"), "# First\n\nSays `hello`,\ntwice.\n\nMore.\n");
  writeFileSync(join(examples_folder, "notes.txt"), "");
  api = await startApi({ api: { examples_folder } });
  expect((await api.call("GET", "/v1/plugin-examples")).json).toEqual({
    items: [
      { name: "first", path: join(examples_folder, "first"), description: "Says hello, twice." },
      { name: "second", path: join(examples_folder, "second"), description: "" },
    ],
  });
  const body = { name: "other", role: "admin", scopes: ["packages:write", "admin"] };
  const { token } = (await api.call("POST", "/v1/keys", { body })).json;
  expect((await api.call("GET", "/v1/plugin-examples", { token })).status).toBe(403);
});

test("lists no examples where they are not installed", async () => {
  api = await startApi();
  expect((await api.call("GET", "/v1/plugin-examples")).json).toEqual({ items: [] });
});
