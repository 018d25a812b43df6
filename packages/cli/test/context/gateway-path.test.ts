/** Paths on the gateway's machine: relative ones only for the gateway of this home. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createContext } from "../../src/context/context.ts";
import { resolveGatewayPath } from "../../src/context/gateway-path.ts";
import { EXIT } from "../../src/index.ts";
import { captureIo } from "../support/capture-io.ts";
import { startFakeGateway } from "../support/fake-gateway.ts";

const URL_OF_HOME = "http://127.0.0.1:7420";
let home: string;
beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), "backplane-cli-"));
  writeFileSync(join(home, "gateway.json"), JSON.stringify({ url: URL_OF_HOME, pid: process.pid }));
});
afterAll(() => rmSync(home, { recursive: true, force: true }));

function resolvePath(path: string, env: Record<string, string> = {}): string {
  const io = captureIo({ env: { BACKPLANE_HOME: home, HOME: "/home/ada", ...env }, cwd: "/projects" });
  return resolveGatewayPath(createContext(io, {}), path, `--mount ${path}`);
}

test("resolves relative paths and ~ for the gateway of this home", () => {
  for (const env of [undefined, { BACKPLANE_URL: URL_OF_HOME }])
    expect(["notes", ".", "~", "~/notes", "/srv/./notes"].map((path) => resolvePath(path, env))).toEqual([
      "/projects/notes",
      "/projects",
      "/home/ada",
      "/home/ada/notes",
      "/srv/notes",
    ]);
});

test("accepts only absolute paths for a gateway that may be on another machine", () => {
  const env = { BACKPLANE_URL: "https://backplane.example" };
  expect(resolvePath("/srv/notes", env)).toBe("/srv/notes");
  for (const path of ["notes", ".", "~", "~/notes", "~ada/notes"])
    expect(() => resolvePath(path, env), path).toThrow(
      `--mount ${path} is not an absolute path. The folder is on the machine of the gateway at https://backplane.example`,
    );
});

test("refuses --mount and `workspace` with a relative path before anything is changed", async () => {
  const gateway = await startFakeGateway(() => ({ json: { items: [], next: null } }));
  for (const argv of [
    ["plugin", "install", "npm:files", "--mount", "~/notes:/data"],
    ["workspace", "trust", "."],
    ["workspace", "show", "tools"],
  ]) {
    const { exit, err } = await gateway.backplane(...argv);
    expect(exit, err).toBe(EXIT.usage);
    expect(err).toContain("is not an absolute path.");
  }
  expect(gateway.requests.filter((request) => !request.endsWith(":inspect"))).toEqual([]);
});
