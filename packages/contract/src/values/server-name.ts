import type { JsonObject } from "./json.ts";

/** The name of an MCP server in the names of its tools: the last part of its package id, as a plain name. */
export function serverName(package_id: string): string {
  return plainName(package_id.slice(package_id.lastIndexOf("/") + 1));
}

/**
 * Returns the name that the binding sets, otherwise the name of the package. Bindings that were created before names
 * could be set have none.
 */
export function boundServerName({ package_id, config }: { package_id: string; config: JsonObject }): string {
  return typeof config.name === "string" ? plainName(config.name) : serverName(package_id);
}

/** Replaces characters that models and other clients reject in tool names. Never returns an empty name. */
export function plainName(name: string): string {
  const text = name
    .normalize("NFKC")
    .replace(/[^A-Za-z0-9_-]+/g, "_")
    .replace(/^_+|_+$/g, "");
  return text === "" ? "x" : text;
}
