/** An MCP server as a part of a source: the package that it becomes and the settings of its binding. */
import { type BindingPolicy, type JsonObject, WHOLE_PACKAGE } from "@backplane/contract";
import type { ImportedPackage } from "@backplane/ports";
import { parsePythonRequirement } from "../../pypi/requirement.ts";
import type { ContentPart, PartImporters, SourceContent } from "../parts/source-content.ts";
import { describeImage } from "./image-server.ts";
import type { McpServerEntry, McpServers } from "./mcp-json.ts";
import { describeServer } from "./npm-server.ts";
import { describePythonServer } from "./python-server.ts";
import { buildServerManifest, type ServerDraft, toPackageId } from "./server-manifest.ts";

/** Publisher and version of a server whose source specifies neither. */
const PUBLISHER = "mcp";
const VERSION = "0.0.0";

export function toServerContent({ servers, left_out }: McpServers, importers: PartImporters): SourceContent {
  const owner = { publisher: PUBLISHER, version: VERSION };
  const parts = servers.map((server) =>
    toServerPart(server, owner, (manifest) => importers.manifest(manifest), importers),
  );
  return { kind: "mcp_servers", parts, left_out, notes: servers.flatMap(describeUnusedSettings) };
}

/**
 * Describes what the entry of a server requests but does not get. A folder of the host is never mounted merely because
 * a file requests it.
 */
export function describeUnusedSettings({ name, mounts = [], ignored = [] }: McpServerEntry): string[] {
  return [
    ...mounts.map(({ source, target, writable }) => {
      const mount = `${source}:${target}${writable ? ":rw" : ""}`;
      return `${name} requests the folder ${source}, which is not granted. To allow it: backplane binding set ${quoteForShell(name)} --mount ${quoteForShell(mount)}`;
    }),
    ...ignored.map(
      ({ flag, reason }) => `${name} is started with ${flag}, which has no effect here: ${reason}.`,
    ),
  ];
}

/** The file that requests the folder is untrusted, and people copy the command into a shell. */
function quoteForShell(text: string): string {
  return /^[A-Za-z0-9@%_+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** `importManifest` imports a server that does not come from a registry. */
export function toServerPart(
  server: McpServerEntry,
  owner: { publisher: string; version: string },
  importManifest: (manifest: string) => Promise<ImportedPackage>,
  importers: Pick<PartImporters, "npm" | "pypi" | "image">,
): ContentPart {
  const { name, from, secret_slots } = server;
  const package_id = toPackageId(owner.publisher, name);
  return {
    kind: "server",
    name,
    registry: from.kind === "npm" || from.kind === "pypi" || from.kind === "image",
    binding: toServerBinding(server),
    preview: {
      name,
      ...(describeRegistrySource(from) ?? { package_id, version: owner.version }),
      secret_slots,
      exports: [WHOLE_PACKAGE],
      binds: true,
    },
    async importPart() {
      if (from.kind === "npm") return await importers.npm({ ...from, secret_slots });
      if (from.kind === "pypi") return await importers.pypi({ ...from, secret_slots });
      if (from.kind === "image")
        return await importers.image({
          reference: from.reference,
          with_args: server.args.length > 0,
          secret_slots,
        });
      const runtime: ServerDraft["runtime"] =
        from.kind === "http"
          ? { protocol: "mcp.http", url: from.url }
          : { protocol: "mcp.stdio", entrypoint: [from.command] };
      const { version } = owner;
      return await importManifest(buildServerManifest({ package_id, version, name, runtime, secret_slots }));
    },
  };
}

/** Derives the package from the spec alone; the version may be a tag, which the registry resolves. */
function describeRegistrySource(
  from: McpServerEntry["from"],
): { package_id: string; version: string } | null {
  if (from.kind === "pypi") {
    const { name, version } = parsePythonRequirement(from.spec);
    return version === null
      ? { ...describePythonServer(name, "0"), version: "latest" }
      : describePythonServer(name, version);
  }
  if (from.kind === "image") return describeImage(from.reference);
  if (from.kind !== "npm") return null;
  const { spec } = from;
  const at = spec.lastIndexOf("@");
  const [name, version] = at > 0 ? [spec.slice(0, at), spec.slice(at + 1)] : [spec, "latest"];
  return describeServer(name, { version });
}

/** The settings of a server that belong to its binding instead of its package. */
interface ServerBinding {
  config?: JsonObject;
  policy?: Pick<BindingPolicy, "secret_env">;
}

/** `secret_env` applies only to a server on stdio. The secrets of a remote server are sent in its headers. */
function toServerBinding({ server_name, from, args, env, secret_env }: McpServerEntry): ServerBinding {
  const headers = from.kind === "http" ? from.headers : {};
  const config: JsonObject = {
    ...(server_name === undefined ? {} : { name: server_name }),
    ...(args.length === 0 ? {} : { args }),
    ...(Object.keys(env).length === 0 ? {} : { env }),
    ...(Object.keys(headers).length === 0 ? {} : { headers }),
  };
  const secret_variables = from.kind === "http" ? {} : secret_env;
  return {
    ...(Object.keys(config).length === 0 ? {} : { config }),
    ...(Object.keys(secret_variables).length === 0 ? {} : { policy: { secret_env: secret_variables } }),
  };
}
