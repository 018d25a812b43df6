/** Secrets of an installation request reach the slots of the servers that it installs. */
import { admin } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { createInstaller, openSqlite, packArchive } from "./installer.ts";

test("passes a secret of the request to a server on stdio in the variable that is named after the slot", async () => {
  const installer = await createInstaller(await openSqlite());
  await installer.fixture.kernel.secrets.put(admin, "own", "hunter2-hunter2");
  const files = {
    "vai-plugin.toml": [
      'api_version = "vai.plugin.v1"\npackage_id = "acme/own"\nversion = "1.0.0"\nname = "Own"',
      '[runtime]\nprotocol = "mcp.stdio"\nentrypoint = ["node", "server.mjs"]',
      '[runtime.permissions]\nsecret_slots = ["api_key"]',
    ].join("\n\n"),
    "server.mjs": "process.exit(1);",
  };
  const secrets = { api_key: "secret://org_local/own" };
  const { bindings } = await installer.install(await packArchive(installer.writeFolder("own", files)), {
    secrets,
  });
  expect(bindings).toMatchObject([{ binding: { secrets, policy: { secret_env: { api_key: "API_KEY" } } } }]);
});

test("makes each secret of the request a slot of a server that is installed by URL", async () => {
  const installer = await createInstaller(await openSqlite());
  await installer.fixture.kernel.secrets.put(admin, "far", "hunter2-hunter2");
  const source = {
    kind: "mcp_url",
    name: "far",
    url: "https://far.invalid/mcp",
    headers: { "X-Team": "ops" },
    secret_slots: [],
  } as const;
  const done = await installer.install(
    { ...source, secret_slots: [] },
    {
      secrets: { authorization: "secret://org_local/far" },
    },
  );
  expect(done.bindings).toMatchObject([
    { binding: { status: "active", config: { headers: { "X-Team": "ops" } }, unbound_slots: [] } },
  ]);
});
