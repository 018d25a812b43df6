/**
 * Runs the sign-in scenarios of the conformance suite through a running gateway: the scenario's server is
 * installed and bound, this script acts as the user (opens the URL, submits the final redirect), and every
 * tool is called; a sign-in during the calls starts them again. The script gives up after MAX_LOGINS sign-ins.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "@backplane/client";
import { BackplaneError, type SignInBegin } from "@backplane/contract";
import { buildServerManifest } from "@backplane/supply";

const MAX_LOGINS = 5;

export async function runThroughGateway(url: URL, scenario: string): Promise<void> {
  const client = createClient({ url: process.env.BACKPLANE_URL!, token: process.env.BACKPLANE_TOKEN! });
  const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? "{}") as Record<string, string>;
  const bound_id = await bind();
  let logins = 0;

  // An operation that needs a sign-in fails with sign_in.needed. After the sign-in, all operations run again.
  for (let done = false; !done; ) {
    const { error, exports } = await client.bindings.describe(bound_id);
    if (error !== null) {
      if (error.code !== "sign_in.needed") throw new Error(`${error.code}: ${error.message}`);
      await signIn();
      continue;
    }
    done = true;
    for (const { id } of exports) {
      const invocation = await client.invocations.invoke({ export_id: id, input: {} }, { wait: 30 });
      console.log(id, invocation.status, JSON.stringify(invocation.error));
      if (invocation.error?.code === "sign_in.needed") {
        await signIn();
        done = false;
      }
    }
  }

  async function signIn(): Promise<void> {
    if (++logins > MAX_LOGINS)
      throw new Error(`The server still requires a sign-in after ${MAX_LOGINS} sign-ins.`);
    const started = await client.bindings.login(bound_id, signInOptions(scenario, context));
    console.log("login", started.status);
    if (started.authorization_url === null) return;
    const response = await fetch(started.authorization_url, { redirect: "manual" });
    await client.bindings.completeLogin(response.headers.get("location")!);
  }

  async function bind(): Promise<string> {
    const folder = mkdtempSync(join(tmpdir(), "backplane-conformance-"));
    try {
      const package_id = `conformance/s${url.port}`;
      const runtime = { protocol: "mcp.http" as const, url: url.href };
      const manifest = buildServerManifest({
        package_id,
        version: "0.0.0",
        name: "s",
        runtime,
        secret_slots: [],
      });
      writeFileSync(join(folder, "vai-plugin.toml"), manifest);
      const installed = await client.packages.installFolder(folder);
      const { binding_id } = await client.bindings.create({
        package_id: installed.package_id,
        package_version: installed.version,
        export_id: "*",
      });
      return binding_id;
    } catch (error) {
      if (error instanceof BackplaneError) console.error(error.code, error.message, error.details);
      throw error;
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }
}

function signInOptions(
  scenario: string,
  { client_id, client_secret, private_key_pem }: Record<string, string>,
): SignInBegin {
  return {
    ...(client_id === undefined ? {} : { client_id }),
    ...(client_secret === undefined ? {} : { client_secret }),
    ...(private_key_pem === undefined ? {} : { private_key: private_key_pem }),
    ...(scenario.includes("client-credentials") ? { grant: "client_credentials" } : {}),
  };
}
