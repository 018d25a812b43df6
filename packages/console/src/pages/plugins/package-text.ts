/** Describes packages in short texts. */
import type { Package, Protocol, SignatureState } from "@backplane/contract";

const KINDS: Partial<Record<Protocol, string>> = {
  "module.tools": "Tool files",
  "module.instrument": "Instruments",
  "hefty.jsonrpc": "Instruments",
  "mcp.stdio": "MCP server",
  "mcp.http": "Remote MCP server",
  skills: "Skills",
};

/** `MCP server`, or what the package exports: `2 tools, 1 hook`. */
export function kindText({ manifest: { runtime, exports, skills = [] } }: Package): string {
  const known = KINDS[runtime.protocol];
  if (known !== undefined) return known;
  const counts = Map.groupBy(exports, ({ kind }) => kind);
  const parts = [...counts].map(([kind, items]) => countText(items.length, kind));
  return [...parts, ...(skills.length === 0 ? [] : [countText(skills.length, "skill")])].join(", ");
}

export function countText(count: number, noun: string): string {
  const plural = noun === "harness" ? "harnesses" : `${noun}s`;
  return `${count} ${count === 1 ? noun : plural}`;
}

const ORIGINS: Record<Package["origin"], string> = {
  upload: "Upload",
  folder: "Folder",
  oci: "OCI registry",
  marketplace: "Marketplace",
  bundled: "Bundled",
  npm: "npm",
  pypi: "PyPI",
  image: "Container image",
  workspace: "Trusted folder",
  core: "Gateway",
};

export function originText({ origin }: Pick<Package, "origin">): string {
  return ORIGINS[origin];
}

/** Describes what the signature proves. */
export function signatureText(signature: SignatureState | undefined): string {
  if (signature === undefined || signature.state === "unsigned")
    return "Nothing proves who built this package. The digest proves that the package has not changed since it was installed.";
  const { state, key_name, key_id, signed_at, reason } = signature;
  const signer = `${key_name ?? key_id ?? "an unknown key"}${signed_at === null ? "" : `, ${signed_at}`}`;
  if (state === "verified") return `Verified: signed with ${signer}.`;
  if (state === "revoked") return `Signed with a key that was revoked later: ${signer}.`;
  if (state === "expired") return `Signed with a key that has expired: ${signer}.`;
  return `Signed, but not verified (${reason ?? "the key is not trusted"}). Trust the key of the publisher in Settings, Signing keys.`;
}
