import type { JsonObject } from "./json.ts";

/** What an MCP server goes by in names of the catalog: the last part of its package's id, of plain characters. */
export function serverName(package_id: string): string {
  return plainName(package_id.slice(package_id.lastIndexOf("/") + 1));
}

/**
 * The name of a bound server: the one that its binding sets, else the one of its package. Bindings that were made before
 * they could set a name keep the name of the package.
 */
export function boundServerName({ package_id, config }: { package_id: string; config: JsonObject }): string {
  return typeof config.name === "string" ? plainName(config.name) : serverName(package_id);
}

/** Of the characters that models and other clients take; never empty. */
export function plainName(name: string): string {
  const text = name
    .normalize("NFKC")
    .replace(/[^A-Za-z0-9_-]+/g, "_")
    .replace(/^_+|_+$/g, "");
  return text === "" ? "x" : text;
}
