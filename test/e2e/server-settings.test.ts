/** Settings of an installed MCP server that change without a new installation. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway/gateway.ts";
import { bindMcpServer, callTool } from "../support/mcp/mcp-server.ts";
import { verifies } from "../support/verifies.ts";

let gateway: TestGateway;
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "backplane-late-"));
  gateway = await startTestGateway();
});
afterAll(async () => {
  await gateway?.dispose();
  rmSync(folder, { recursive: true, force: true });
});

async function callForText(export_id: string): Promise<string> {
  const called = await callTool(gateway, export_id);
  expect(called.status, JSON.stringify(called)).toBe("succeeded");
  return called.tool_result!.content[0]!.text;
}

async function setBinding(...args: string[]): Promise<string> {
  const done = await gateway.cli("binding", "set", ...args);
  expect(done.code, done.stderr).toBe(0);
  return done.stderr;
}

/** The command lines of all processes, as every user of this machine can read them. */
function readCommandLines(): string {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, "utf8");
      } catch {
        return "";
      }
    })
    .join("\n");
}

verifies(
  ["bind.late", "server.names"],
  "changes secrets, arguments, environment and name of an installed server",
  async () => {
    await bindMcpServer(gateway, folder, "late");
    await gateway.http("PUT", "/v1/secrets/late_key", { value: "key-hunter2-hunter2" });
    await gateway.http("PUT", "/v1/secrets/late_db", { value: "db-hunter2-hunter2" });
    const placeholder = "$" + "{db_password}";
    const secrets = ["--secret", "API_KEY=late_key", "--secret", "db_password=late_db"];
    const variables = ["--env", "LEVEL=debug", "--env", `AUTH=Basic ${placeholder}`];
    await setBinding("late", ...secrets, ...variables, "--", "--url", `pg://app:${placeholder}@db/app`);
    const env = JSON.parse(await callForText("mcp_late_env")) as Record<string, string>;
    expect(env).toMatchObject({ LEVEL: "debug", API_KEY: "[redacted]", AUTH: "Basic [redacted]" });
    // The variables that carried the secrets of the arguments are gone, and a secret behind a placeholder gets no variable.
    expect(Object.keys(env).filter((name) => /^(BACKPLANE_|NODE_OPTIONS$|DB_PASSWORD$)/.test(name))).toEqual(
      [],
    );
    expect(await callForText("mcp_late_args")).toBe('["--url","pg://app:[redacted]@db/app"]');
    const lines = readCommandLines();
    expect(lines).toContain(`pg://app:${placeholder}@db/app`);
    expect(lines).not.toContain("hunter2");

    const renamed = await setBinding(
      "late",
      "--name",
      "early",
      "--unset-env",
      "LEVEL",
      "--args",
      "one 'two three'",
    );
    expect(renamed).toContain("The tools of this server are now named mcp_early_….");
    expect(renamed).toContain("that refer to mcp_late_… no longer match");
    expect(await callForText("mcp_early_args")).toBe('["one","two three"]');
    expect(JSON.parse(await callForText("mcp_early_env"))).not.toHaveProperty("LEVEL");
    await setBinding("early", "--unset-secret", "api_key");
    expect(JSON.parse(await callForText("mcp_early_env"))).not.toHaveProperty("API_KEY");
    const old = await gateway.cli("invoke", "mcp_late_args");
    expect(old.code).not.toBe(0);

    const missing = await gateway.cli("binding", "set", "early", "--secret", "token=nowhere");
    expect([missing.code, missing.stderr]).toEqual([
      expect.any(Number),
      expect.stringContaining("Secret nowhere does not exist."),
    ]);
    const unbound = await setBinding("early", "--env", "TOKEN=$" + "{token}");
    expect(unbound).toMatch(
      /Not active\. Bind its secret: backplane binding set bind_\w+ --secret token=NAME/,
    );
    const other = await gateway.cli("binding", "set", "early", "--unset-env", "TOKEN");
    expect(other.code, other.stderr).toBe(0);
    expect(await callForText("mcp_early_args")).toBe('["one","two three"]');
  },
  120_000,
);

verifies(
  "bind.late",
  "fills in a placeholder in capitals, and passes an escaped one on as literal text",
  async () => {
    const placeholder = (name: string) => `$${`{${name}}`}`;
    await bindMcpServer(gateway, folder, "caps");
    await gateway.http("PUT", "/v1/secrets/caps_tok", { value: "tok-hunter3-hunter3" });
    const args = [`tok=${placeholder("MYTOK")}`, `$${placeholder("HOME")}`, "$HOME"];
    await setBinding("caps", "--secret", "MYTOK=caps_tok", "--", ...args);
    expect(await callForText("mcp_caps_args")).toBe(
      JSON.stringify(["tok=[redacted]", placeholder("HOME"), "$HOME"]),
    );
    expect(JSON.parse(await callForText("mcp_caps_env"))).not.toHaveProperty("MYTOK");
    await setBinding(
      "caps",
      "--env",
      `A=x:$${placeholder("MYTOK")}`,
      "--env",
      `B=${placeholder("MyTok")}`,
      "--",
      args[1]!,
    );
    expect(await callForText("mcp_caps_args")).toBe(JSON.stringify([placeholder("HOME")]));
    const env = JSON.parse(await callForText("mcp_caps_env")) as Record<string, string>;
    expect(env).toMatchObject({ A: `x:${placeholder("MYTOK")}`, B: "[redacted]" });
    const unset = await setBinding("caps", "--unset-secret", "MYTOK");
    expect(unset).toContain("--secret mytok=NAME");
    const unknown = await setBinding("caps", "--unset-env", "B", "--env", `URL=x:${placeholder("MYTOK2")}`);
    expect(unknown).toContain("--secret mytok2=NAME");
  },
  120_000,
);
