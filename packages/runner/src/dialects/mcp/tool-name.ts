/**
 * What a tool of an MCP server is called in the catalog: `mcp_<server>_<tool>`, of the characters that models and other
 * clients take, at most 64. Two of a server's names that come out alike are told apart by a digest of their own.
 */
import { hash } from "node:crypto";

const LONGEST = 64;
const DIGEST = 8;

/** One id for each name, in their order. */
export function toolNames(package_id: string, names: readonly string[]): string[] {
  const server = plain(package_id.slice(package_id.lastIndexOf("/") + 1));
  const wanted = names.map((name) => `mcp_${server}_${plain(name)}`);
  const seen = new Map<string, number>();
  for (const id of wanted) seen.set(id, (seen.get(id) ?? 0) + 1);
  return wanted.map((id, index) =>
    id.length <= LONGEST && seen.get(id) === 1 ? id : withDigest(id, names[index]!),
  );
}

function plain(name: string): string {
  const text = name
    .normalize("NFKC")
    .replace(/[^A-Za-z0-9_-]+/g, "_")
    .replace(/^_+|_+$/g, "");
  return text === "" ? "x" : text;
}

function withDigest(id: string, name: string): string {
  return `${id.slice(0, LONGEST - DIGEST - 1)}_${hash("sha256", name, "hex").slice(0, DIGEST)}`;
}
