/**
 * What a tool of an MCP server is called in the catalog: `mcp_<server>_<tool>`, of the characters that models and other
 * clients take, at most 64. Two of a server's names that come out alike are told apart by a digest of their own.
 */
import { hash } from "node:crypto";
import { plainName, serverName } from "@backplane/contract";

const LONGEST = 64;
const DIGEST = 8;

/** One id for each name, in their order. */
export function toolNames(package_id: string, names: readonly string[]): string[] {
  const server = serverName(package_id);
  const wanted = names.map((name) => `mcp_${server}_${plainName(name)}`);
  const seen = new Map<string, number>();
  for (const id of wanted) seen.set(id, (seen.get(id) ?? 0) + 1);
  return wanted.map((id, index) =>
    id.length <= LONGEST && seen.get(id) === 1 ? id : withDigest(id, names[index]!),
  );
}

function withDigest(id: string, name: string): string {
  return `${id.slice(0, LONGEST - DIGEST - 1)}_${hash("sha256", name, "hex").slice(0, DIGEST)}`;
}
