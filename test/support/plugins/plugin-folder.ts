/** Writes small plugins, each a program with its manifest, to temporary folders, and installs and binds them. */
import { chmodSync, mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { buildSync } from "esbuild";
import { CANARY, CANARY_NAME, CANARY_SLOT } from "../gateway/canary.ts";
import type { TestGateway } from "../gateway/gateway.ts";

export interface PluginFolder {
  package_id: string;
  version?: string;
  protocol?: "vai.rpc.v1" | "rterm.plugin.v1";
  entrypoint: string[];
  files: Record<string, string>;
  exports: ToolSpec[];
}

interface ToolSpec {
  id: string;
  effect_class?: string;
  default_timeout_ms?: number;
  max_concurrency?: number;
  /** Additional lines of the export, such as its permissions; by default a secret slot for the canary. */
  extra?: string;
}

export function writePluginFolder(spec: PluginFolder): string {
  const folder = mkdtempSync(join(tmpdir(), "backplane-plugin-"));
  for (const [name, text] of Object.entries(spec.files)) {
    const file = join(folder, name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
    if (text.startsWith("#!")) chmodSync(file, 0o755);
  }
  writeFileSync(join(folder, "vai-plugin.toml"), renderManifest(spec));
  return folder;
}

const CANARY_PERMISSIONS = `[exports.permissions]\nsecret_slots = ["${CANARY_SLOT}"]`;

function renderManifest(spec: PluginFolder): string {
  const lines = [
    'api_version = "vai.plugin.v1"',
    `package_id = "${spec.package_id}"`,
    `version = "${spec.version ?? "1.0.0"}"`,
    `name = "${spec.package_id}"`,
    "[runtime]",
    `protocol = "${spec.protocol ?? "vai.rpc.v1"}"`,
    `entrypoint = ${JSON.stringify(spec.entrypoint)}`,
  ];
  for (const tool of spec.exports) {
    lines.push("[[exports]]", `id = "${tool.id}"`, 'kind = "tool"');
    if (tool.default_timeout_ms !== undefined) lines.push(`default_timeout_ms = ${tool.default_timeout_ms}`);
    if (tool.max_concurrency !== undefined) lines.push(`max_concurrency = ${tool.max_concurrency}`);
    // A slot for the canary that every call receives, unless the test sets its own permissions.
    lines.push(tool.extra ?? CANARY_PERMISSIONS);
    lines.push("[exports.tool]", `effect_class = "${tool.effect_class ?? "read_only"}"`);
  }
  return `${lines.join("\n")}\n`;
}

/**
 * A program that uses the plugin side of the wire module, for tests that need a well-behaved process with unusual tools.
 * The program is one file, because the sandbox does not contain this repository.
 */
export function vaiProgram(package_id: string, handle: string, version = "1.0.0"): string {
  const contents = `import { stdioTransport, VaiPlugin } from "@backplane/wire";
import { appendFileSync } from "node:fs";
const handle = ${handle};
process.stdin.on("end", () => process.exit(0));
new VaiPlugin({
  transport: stdioTransport(process.stdin, process.stdout),
  identity: { package_id: ${JSON.stringify(package_id)}, version: ${JSON.stringify(version)} },
  handle,
  onShutdown: () => process.exit(0),
  onFailure: () => process.exit(1),
}).start();
void appendFileSync;
`;
  return bundle(contents);
}

/** Bundles a program and its imports from this repository into one file. */
export function bundle(contents: string): string {
  const { outputFiles } = buildSync({
    stdin: { contents, resolveDir: resolve("."), sourcefile: "plugin.mjs" },
    bundle: true,
    write: false,
    platform: "node",
    format: "esm",
    conditions: ["backplane-source"],
  });
  return outputFiles[0]!.text;
}

export async function installAndBind(
  gateway: TestGateway,
  folder: string,
  export_ids: string[],
  policy: Record<string, unknown> = { class: "worker" },
): Promise<Record<string, string>> {
  const installed = await gateway.http<{ package_id: string; version: string }>(
    "POST",
    "/v1/plugin-packages",
    { source: { folder } },
  );
  if (installed.status >= 300) throw new Error(`install: ${JSON.stringify(installed.body)}`);
  const bindings: Record<string, string> = {};
  const slots = await findCanarySecrets(gateway, installed.body);
  if (Object.values(slots).some((secrets) => secrets !== undefined)) {
    await gateway.http("PUT", `/v1/secrets/${CANARY_NAME}`, { value: CANARY });
  }
  for (const export_id of export_ids) {
    const bound = await gateway.http<{ binding_id: string }>("POST", "/v1/plugin-bindings", {
      package_id: installed.body.package_id,
      package_version: installed.body.version,
      export_id,
      policy,
      ...slots[export_id],
    });
    if (slots[export_id] !== undefined) gateway.canary_bindings++;
    if (bound.status !== 201) throw new Error(`bind: ${JSON.stringify(bound.body)}`);
    bindings[export_id] = bound.body.binding_id;
  }
  return bindings;
}

/** Returns the secrets to bind for each export: the canary, if the export has a slot for it. */
async function findCanarySecrets(
  gateway: TestGateway,
  installed: { package_id: string; version: string },
): Promise<Record<string, { secrets: Record<string, string> } | undefined>> {
  const { items } = (
    await gateway.http<{ items: InstalledPackage[] }>("GET", "/v1/plugin-packages?limit=500")
  ).body;
  const installed_package = items.find(
    (pack) => pack.package_id === installed.package_id && pack.version === installed.version,
  );
  const secrets = { [CANARY_SLOT]: `secret://org_local/${CANARY_NAME}` };
  return Object.fromEntries(
    (installed_package?.manifest.exports ?? []).map(({ id, permissions }) => [
      id,
      permissions.secret_slots.includes(CANARY_SLOT) ? { secrets } : undefined,
    ]),
  );
}

interface InstalledPackage {
  package_id: string;
  version: string;
  manifest: { exports: { id: string; permissions: { secret_slots: string[] } }[] };
}
