/** Published MCP programs that the tests use. `npm test` installs them (scripts/prepare-peers.ts). */
import { existsSync } from "node:fs";
import { resolve } from "node:path";

/** The folder whose node_modules contains them. */
export const PEERS = resolve("test/peers");

/** A path below node_modules. Throws if the peers are not installed. */
export function peerFile(path: string): string {
  const file = resolve(PEERS, "node_modules", path);
  if (!existsSync(file)) throw new Error(`${file} does not exist. Run \`node scripts/prepare-peers.ts\`.`);
  return file;
}
