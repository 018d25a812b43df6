/** The gateway never runs installed files that another process has changed. */
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway/gateway.ts";
import { installAndBind, writePluginFolder } from "../support/plugins/plugin-folder.ts";
import { verifies } from "../support/verifies.ts";

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startTestGateway();
});
afterAll(() => gateway.dispose());

const SCRIPT = `#!/bin/sh
read -r line
printf '{"type":"handshake","manifest":{"plugin_id":"acme/side","plugin_version":"1.0.0","protocol_version":"rterm.plugin.v1","exposed_tools":["run"]}}\\n'
read -r line
id=$(printf '%s' "$line" | sed 's/.*"request_id":"\\([^"]*\\)".*/\\1/')
printf '{"type":"response","request_id":"%s","status":"ok","output":"the installed bytes"}\\n' "$id"
`;

verifies("pkg.immutable", "refuses to launch a package whose installed files were changed", async () => {
  const folder = writePluginFolder({
    package_id: "acme/side",
    protocol: "rterm.plugin.v1",
    entrypoint: ["./run.sh"],
    files: { "run.sh": SCRIPT, "data.txt": "first" },
    exports: [{ id: "run" }],
  });
  await installAndBind(gateway, folder, ["run"]);
  const call = async () => {
    const response = await gateway.http<{
      status: string;
      error: { code: string } | null;
      package_digest: string;
    }>("POST", "/v1/invocations?wait=30", { export_id: "run", input: {} });
    return response.body;
  };
  const first = await call();
  expect(first).toMatchObject({ status: "succeeded", error: null });

  const tree = join(gateway.home, "blobs/sha256", first.package_digest.slice("sha256:".length), "tree");
  const change = (name: string, text: string) => {
    chmodSync(join(tree, name), 0o755);
    writeFileSync(join(tree, name), text);
    chmodSync(join(tree, name), name === "run.sh" ? 0o555 : 0o444);
  };
  change("run.sh", SCRIPT.replace("the installed bytes", "something else"));
  expect(await call()).toMatchObject({ status: "failed", error: { code: "package.corrupt" } });
  change("run.sh", readFileSync(join(folder, "run.sh"), "utf8"));
  expect(await call()).toMatchObject({ status: "succeeded" });
  change("data.txt", "First");
  expect(await call()).toMatchObject({ status: "failed", error: { code: "package.corrupt" } });
});
