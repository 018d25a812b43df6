/** MCP servers in container images, from a real registry, in the sandbox of a real gateway. */
import { execFile, execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/gateway.ts";
import { callTool } from "../../support/mcp/mcp-server.ts";
import { type DockerRegistry, startDockerRegistry } from "../../support/registries/docker-registry.ts";
import { writeImageLayout } from "../../support/registries/image-layout.ts";
import { verifies } from "../../support/verifies.ts";

let registry: DockerRegistry;
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "backplane-images-"));
  chmodSync(folder, 0o755);
  registry = await startDockerRegistry({ login: false });
  const layout = await writeImageLayout(folder);
  await registry.skopeo(
    "copy",
    "--insecure-policy",
    "--dest-tls-verify=false",
    `oci:${layout}:1.0`,
    `docker://${registry.host}/acme/look:1.0`,
  );
}, 60_000);
afterAll(() => {
  registry?.stop();
  rmSync(folder, { recursive: true, force: true });
});

function createHome(name: string): string {
  const home = join(folder, name);
  mkdirSync(home, { mode: 0o700 });
  writeFileSync(join(home, "backplane.toml"), `[egress]\nallow_private = ["${registry.host}"]\n`);
  return home;
}

const EXPECTED_REPORT = {
  cwd: "/notes",
  note: "from the image",
  host: false,
  root_writable: false,
  tmp_writable: true,
  removed: true,
  uid: 1000,
};

async function callLook(gateway: TestGateway, name: string): Promise<object> {
  const { tool_result, error } = await callTool(gateway, `mcp_${name}_look`, {});
  expect(error, gateway.log().slice(-2_000)).toBeNull();
  return JSON.parse(tool_result!.content[0]!.text) as object;
}

verifies(
  "source.image",
  "runs the server of an image in the sandbox, with its arguments and secrets and with the image as its root",
  async () => {
    const gateway = await startTestGateway({ home: createHome("root") });
    try {
      await gateway.http("PUT", "/v1/secrets/api_key", { value: "twelve-chars" });
      const reference = `image:${registry.host}/acme/look:1.0`;
      const installed = await gateway.cli("plugin", "install", reference, "--secret", "api_key=api_key");
      expect(installed, installed.stderr).toMatchObject({ code: 0 });
      expect(await callLook(gateway, "look")).toEqual({
        ...EXPECTED_REPORT,
        argument: "by-default",
        level: "low",
        secret: "twelve-chars".length,
      });
      const mcpServers = {
        docker: {
          command: "docker",
          args: [
            "run",
            "-i",
            "--rm",
            "-e",
            "LEVEL=high",
            "-v",
            "/srv:/data",
            `${registry.host}/acme/look:1.0`,
            "mine",
          ],
        },
      };
      // The same image with arguments is another package of the same version.
      for (const { binding_id } of (
        await gateway.http<{ items: { binding_id: string }[] }>("GET", "/v1/plugin-bindings")
      ).body.items)
        await gateway.http("DELETE", `/v1/plugin-bindings/${binding_id}`);
      const packages = await gateway.http<{ items: { id: string }[] }>("GET", "/v1/plugin-packages");
      for (const { id } of packages.body.items) await gateway.http("DELETE", `/v1/plugin-packages/${id}`);
      writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpServers }));
      const again = await gateway.cli("plugin", "install", join(folder, "mcp.json"));
      expect(again, again.stderr).toMatchObject({ code: 0 });
      expect(again.stderr).toContain("backplane binding set docker --mount /srv:/data:rw");
      expect(await callLook(gateway, "docker")).toMatchObject({
        ...EXPECTED_REPORT,
        argument: "mine",
        level: "high",
      });
    } finally {
      await gateway.dispose();
    }
  },
);

verifies(
  ["source.image", "upgrade.moves"],
  "upgrades a server to another image with its arguments, and returns to the previous image",
  async () => {
    const repository = `${registry.host}/acme/look`;
    await registry.skopeo(
      "copy",
      "--insecure-policy",
      "--src-tls-verify=false",
      "--dest-tls-verify=false",
      `docker://${repository}:1.0`,
      `docker://${repository}:2.0`,
    );
    const gateway = await startTestGateway({ home: createHome("upgrade") });
    try {
      const installed = await gateway.cli("plugin", "install", `image:${repository}:1.0`, "--", "mine");
      expect(installed, installed.stderr).toMatchObject({ code: 0 });
      const upgrade = ["plugin", "upgrade", "acme/look", "--from", `image:${repository}:2.0`, "--yes"];
      const upgraded = await gateway.cli(...upgrade);
      expect(upgraded, upgraded.stderr).toMatchObject({ code: 0 });
      expect(upgraded.stdout).toMatch(/ 2\.0\.0\+image\.[0-9a-f]{12}\.args \(active\)/);
      expect(await callLook(gateway, "look")).toMatchObject({ ...EXPECTED_REPORT, argument: "mine" });
      const undone = await gateway.cli("plugin", "rollback", "acme/look");
      expect(undone.stdout).toMatch(/ 1\.0\.0\+image\.[0-9a-f]{12}\.args \(active\)/);
    } finally {
      await gateway.dispose();
    }
  },
);

test.runIf(process.getuid!() === 0)(
  "an ordinary user's gateway installs and runs a server in a container image",
  async () => {
    const user_folder = join(folder, "ordinary");
    mkdirSync(user_folder);
    const home = createHome("ordinary/home");
    const script = `
    import { startTestGateway } from ${JSON.stringify(resolve("test/support/gateway/gateway.ts"))};
    const gateway = await startTestGateway({ home: ${JSON.stringify(home)} });
    const source = { kind: "image", reference: "${registry.host}/acme/look:1.0" };
    const installed = await gateway.http("POST", "/v1/plugin-installations", { source });
    const call = await gateway.http("POST", "/v1/invocations?wait=60", { export_id: "mcp_look_look", input: {} });
    await gateway.stop();
    console.log(JSON.stringify({ installed, call: call.body }));
  `;
    writeFileSync(join(user_folder, "run.mts"), script);
    execFileSync("chown", ["-R", "65534:65534", user_folder]);
    const { stdout } = await promisify(execFile)(process.execPath, [join(user_folder, "run.mts")], {
      uid: 65_534,
      gid: 65_534,
      cwd: process.cwd(),
      env: { PATH: "/usr/bin:/bin", HOME: user_folder, TMPDIR: user_folder },
      timeout: 300_000,
    });
    const { installed, call } = JSON.parse(stdout.trim().split("\n").at(-1)!) as {
      installed: { status: number };
      call: { status: string; tool_result: { content: { text: string }[] } };
    };
    expect(installed.status, stdout).toBe(201);
    expect(call.status, stdout).toBe("succeeded");
    expect(JSON.parse(call.tool_result.content[0]!.text)).toMatchObject(EXPECTED_REPORT);
  },
);
