/** An Agent Plugins 1.0 folder, installed with one command and not changed by it. */
import { hash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway.ts";
import { verifies } from "../support/verifies.ts";

const FOLDER = resolve("test/fixtures/agent-plugin");

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startTestGateway();
}, 60_000);
afterAll(() => gateway.dispose());

function printOf(folder: string): string {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((one) => one.isFile());
  const paths = files.map((one) => join(one.parentPath, one.name)).sort();
  return hash("sha256", JSON.stringify(paths.map((path) => [path, readFileSync(path, "utf8")])));
}

verifies(
  "bridge.agent-plugins",
  "plugin.json, mcp.json and skills/ install unchanged: servers are tools, skills can be found and read",
  async () => {
    const before = printOf(FOLDER);
    const installed = await gateway.cli("plugin", "install", FOLDER);
    expect(installed.stderr).toContain("The server old is left out");
    expect([installed.code, installed.stdout]).toEqual([
      0,
      expect.stringContaining("Bound office-kit/skills"),
    ]);
    expect(printOf(FOLDER)).toBe(before);

    const invoke = async (tool: string, input: object) => {
      const { code, stdout, stderr } = await gateway.cli("invoke", tool, "--input", JSON.stringify(input));
      expect([code, stderr]).toEqual([0, expect.anything()]);
      return stdout.trim();
    };
    expect(await invoke("mcp_notes_greet", {})).toBe("hello");
    expect(await invoke("mcp_notes_note", { text: "milk" })).toBe("1 kept");
    expect(await invoke("skill", {})).toContain("fill-forms: Fills in paper forms.");
    expect(await invoke("skill", { name: "fill-forms" })).toContain(
      "Files of this skill: references/boxes.md",
    );
    expect(await invoke("skill", { name: "fill-forms", file: "references/boxes.md" })).toContain("Box 1");

    const again = await gateway.cli("plugin", "install", FOLDER);
    expect(again.code).toBe(0);
  },
);
