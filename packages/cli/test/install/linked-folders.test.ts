/** `plugin install FOLDER --editable` for a package, against a gateway in this process. */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Binding, Invocation } from "@backplane/contract";
import { afterAll, beforeAll, expect, test } from "vitest";
import { EXIT } from "../../src/index.ts";
import { startTestGateway, type TestGateway } from "../support/gateway.ts";

let gateway: TestGateway;
let base: string;
beforeAll(async () => {
  base = mkdtempSync(join(tmpdir(), "backplane-linked-"));
  gateway = await startTestGateway();
});
afterAll(async () => {
  await gateway.close();
  rmSync(base, { recursive: true, force: true });
});

const readGreeting = async () => {
  const { out } = await gateway.backplane(["invoke", "hello", "name=Ada", "--json"]);
  return JSON.stringify((JSON.parse(out) as Invocation).result);
};
const listBindings = async () => (await gateway.json<{ items: Binding[] }>(["binding", "list"])).items;
const listVersions = async () => {
  const { items } = await gateway.json<{ items: { version: string }[] }>(["plugin", "list"]);
  return items.map(({ version }) => version);
};

test("changes the bindings of a package to its linked folder, and removes them with the link", async () => {
  const path = join(base, "hello");
  cpSync(resolve("examples/hello-tool"), path, { recursive: true });
  const program = join(path, "bin/plugin.mjs");
  const changeGreeting = (from: string, to: string) =>
    writeFileSync(program, readFileSync(program, "utf8").replace(`?? "${from}"`, `?? "${to}"`));
  expect((await gateway.backplane(["plugin", "install", path, "--bind"])).exit).toBe(EXIT.ok);
  const [binding] = await listBindings();
  changeGreeting("Hello", "Servus");
  const refused = await gateway.backplane(["plugin", "install", path, "--bind"]);
  expect(refused.exit).toBe(EXIT.failed);
  expect(refused.err).toMatch(
    /acme\/hello 0\.1\.0 is already installed.*\n.*Increase the version.*--editable/s,
  );

  const linked = await gateway.backplane(["plugin", "install", path, "--editable"]);
  expect(linked.out).toMatch(/as acme\/hello@0\.1\.0\+edit\.d[0-9a-f]{12}/);
  expect((await listBindings()).map(({ binding_id }) => binding_id)).toEqual([binding!.binding_id]);
  expect(await readGreeting()).toContain("Servus, Ada!");
  changeGreeting("Servus", "Moin");
  await expect.poll(readGreeting).toContain("Moin, Ada!");
  expect(await listVersions()).toContain("0.1.0");

  const unlinked = await gateway.backplane(["workspace", "untrust", path, "--yes"]);
  expect(unlinked.exit).toBe(EXIT.ok);
  expect(await listBindings()).toEqual([]);
  expect(await listVersions()).toEqual(["0.1.0"]);
});
