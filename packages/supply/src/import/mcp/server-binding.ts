/** The settings of a server that belong to its binding instead of its package. */
import type { BindingPolicy, JsonObject } from "@backplane/contract";
import type { McpServerEntry } from "./mcp-json.ts";

export interface ServerBinding {
  config?: JsonObject;
  policy?: Pick<BindingPolicy, "secret_env">;
}

/** A server on stdio can receive a secret only in an environment variable. */
export function serverBinding({ from, args, env, secret_env }: McpServerEntry): ServerBinding {
  const headers = from.kind === "http" ? from.headers : {};
  const config: JsonObject = {
    ...(args.length === 0 ? {} : { args }),
    ...(Object.keys(env).length === 0 ? {} : { env }),
    ...(Object.keys(headers).length === 0 ? {} : { headers }),
  };
  const named = from.kind === "http" ? {} : secret_env;
  return {
    ...(Object.keys(config).length === 0 ? {} : { config }),
    ...(Object.keys(named).length === 0 ? {} : { policy: { secret_env: named } }),
  };
}
