/**
 * Runs a sign-in scenario of the conformance suite on a running gateway: installs and binds the scenario's server,
 * signs in as the user would (opens the URL, submits the final redirect), and calls every tool. If a call needs another
 * sign-in, all tools are called again after it. Fails after MAX_LOGINS sign-ins.
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
  const binding_id = await bind();
  let logins = 0;

  for (let done = false; !done; ) {
    const { error, exports } = await client.bindings.describe(binding_id);
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
    const started = await client.bindings.login(binding_id, signInOptions(scenario, context));
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
      const binding = await client.bindings.create({
        package_id: installed.package_id,
        package_version: installed.version,
        export_id: "*",
      });
      return binding.binding_id;
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
