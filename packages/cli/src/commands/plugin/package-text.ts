/** Describes a package: its exports, or the tools that the bindings of a self-describing package reported. */
import {
  type Binding,
  codeOf,
  type Definitions,
  describeProvenance,
  isSelfDescribing,
  type Package,
  type Protocol,
} from "@backplane/contract";
import type { CommandContext } from "../../context/context.ts";
import { listAll } from "../../context/page.ts";
import { formatPermissions } from "../../packages/permission-text.ts";
import { describeSignature } from "../../packages/signature-text.ts";
import { type Cell, fields, type Output, table } from "../../terminal/output.ts";

export interface BoundTools {
  binding: Binding;
  /** Null if the plugin has not reported its tools yet. */
  definitions: Definitions | null;
}

const KINDS: Partial<Record<Protocol, string>> = {
  "module.tools": "tool files",
  "module.instrument": "instruments",
  "hefty.jsonrpc": "instruments",
  "mcp.stdio": "MCP server",
  "mcp.http": "MCP server",
};

/** The content of a package as one table cell. */
export function contentsCell({ manifest: { runtime, exports, skills = [] } }: Package): string {
  const names = [...exports.map(({ id }) => id), ...skills.map(({ name }) => `skill ${name}`)];
  return [KINDS[runtime.protocol], names.join(",")].filter(Boolean).join(": ");
}

/** Lists the verified properties of a package, as one table cell. */
export function verifiedCell({ signature, provenance }: Pick<Package, "signature" | "provenance">): string {
  const verified = [
    ...(signature?.state === "verified" ? ["signature"] : []),
    ...(signature?.state === "revoked" || signature?.state === "expired" ? [`key ${signature.state}`] : []),
    ...(provenance?.state === "verified" ? ["provenance"] : []),
  ];
  return verified.join(", ") || "-";
}

/** The bindings of this version with their tools; empty for a package whose manifest lists its exports. */
export async function readBoundTools(context: CommandContext, installed: Package): Promise<BoundTools[]> {
  if (!isSelfDescribing(installed.manifest.runtime.protocol)) return [];
  const { bindings } = context.client();
  const { package_id, version } = installed;
  const all_bindings = await listAll((page) => bindings.list({ package_id, ...page }));
  const version_bindings = all_bindings.filter(({ package_version }) => package_version === version);
  return await Promise.all(
    version_bindings.map(async (binding) => ({
      binding,
      definitions: await readDefinitions(context, binding),
    })),
  );
}

async function readDefinitions(
  context: CommandContext,
  { binding_id }: Binding,
): Promise<Definitions | null> {
  try {
    return await context.client().bindings.definitions(binding_id);
  } catch (error) {
    if (codeOf(error) === "export.not_found") return null;
    throw error;
  }
}

export function describePackage(out: Output, installed: Package, bound: readonly BoundTools[]): string {
  const { id, digest, size_bytes, origin, installed_at, installed_by, manifest } = installed;
  const { runtime, skills = [] } = manifest;
  const summary = fields({
    package: `${installed.package_id}@${installed.version}`,
    id,
    name: manifest.name,
    description: manifest.description,
    license: manifest.license,
    source: manifest.source,
    protocol: runtime.protocol,
    ...(runtime.protocol === "skills" ? {} : { entrypoint: runtime.entrypoint.join(" ") }),
    digest,
    size_bytes,
    origin,
    ...(installed.oci === undefined
      ? {}
      : { reference: installed.oci.reference, manifest: installed.oci.manifest_digest }),
    ...(installed.signature === undefined ? {} : { signature: describeSignature(installed.signature) }),
    ...(installed.provenance === undefined ? {} : { provenance: describeProvenance(installed.provenance) }),
    installed: `${installed_at} by ${installed_by}`,
  });
  const parts = [summary];
  if (isSelfDescribing(runtime.protocol)) parts.push(formatTools(out, bound));
  else if (manifest.exports.length > 0) parts.push(formatExports(out, installed));
  if (skills.length > 0) {
    const rows = skills.map(({ name, description }) => [name, description]);
    parts.push(table(out, ["SKILL", "DESCRIPTION"], rows));
  }
  parts.push(formatPermissions([installed]).join("\n"));
  return parts.join("\n\n");
}

function formatTools(out: Output, bound: readonly BoundTools[]): string {
  if (bound.length === 0) return "Not bound; its tools are known only after binding.";
  const rows = bound.flatMap(({ binding: { binding_id, status }, definitions }): Cell[][] => {
    if (definitions === null) return [[binding_id, status, null, null]];
    const { exports, quarantined, error } = definitions;
    const tools = [
      ...exports.map(({ id, tool }) => [id, tool.load_error === undefined ? "offered" : "broken"]),
      ...quarantined.map((change) => [change.export.id, "changed"]),
    ];
    if (tools.length === 0) return [[binding_id, status, null, error?.code ?? "no tools"]];
    return tools.map(([id, state]) => [binding_id, status, id, state]);
  });
  return table(out, ["BINDING", "STATUS", "TOOL", "STATE"], rows);
}

function formatExports(out: Output, { manifest }: Package): string {
  return table(
    out,
    ["EXPORT", "KIND", "NETWORK", "FILES", "SECRETS", "DESCRIPTION"],
    manifest.exports.map((each) => [
      each.id,
      each.kind,
      each.permissions.network,
      each.permissions.filesystem,
      each.permissions.secret_slots.join(",") || "-",
      each.description,
    ]),
  );
}
