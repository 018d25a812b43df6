/** The settings and secret slots of a binding, as its package declares them. */
import {
  isObject,
  isRemoteProtocol,
  type Json,
  type JsonObject,
  type Package,
  WHOLE_PACKAGE,
} from "@backplane/contract";

const PLACEHOLDER = `\${SLOT} is replaced by the secret in that slot.`;
const STRINGS = { type: "object", additionalProperties: { type: "string" } } as const;

/** The settings of a server, which has no schema of its own. */
function serverSchema(remote: boolean): JsonObject {
  const name = {
    type: "string",
    title: "Name",
    description: "The tools of the server are named mcp_NAME_TOOL.",
  };
  if (remote)
    return {
      type: "object",
      properties: {
        name,
        headers: {
          ...STRINGS,
          title: "Headers",
          description: `Sent with every request. ${PLACEHOLDER}`,
        },
      },
    };
  return {
    type: "object",
    properties: {
      name,
      args: {
        type: "array",
        title: "Arguments",
        items: { type: "string" },
        description: PLACEHOLDER,
      },
      env: { ...STRINGS, title: "Environment variables", description: PLACEHOLDER },
      idle_timeout_s: {
        type: "integer",
        minimum: 0,
        title: "Idle timeout in seconds",
        description: "Stops the server after this time without a call; 0 for never.",
      },
    },
  };
}

/** The schema of the configuration of a binding; null if its export has none. */
export function findConfigSchema(pkg: Package, export_id: string): JsonObject | null {
  const { runtime, exports } = pkg.manifest;
  if (runtime.protocol === "mcp.stdio" || runtime.protocol === "mcp.http")
    return serverSchema(isRemoteProtocol(runtime.protocol));
  const bound = exports.filter(({ id, kind }) =>
    export_id === WHOLE_PACKAGE ? kind === "tool" : id === export_id,
  );
  const paths = new Set(bound.flatMap(({ config_schema }) => config_schema ?? []));
  const schemas = [...paths]
    .map((path): Json | undefined => pkg.schemas[path])
    .filter(isObject) as JsonObject[];
  if (schemas.length === 0) return null;
  return schemas.length === 1 ? schemas[0]! : { type: "object", allOf: schemas };
}

/** The slots that a binding of this export has to fill. */
export function listSlotNames(pkg: Package, export_id: string): string[] {
  const { runtime, exports } = pkg.manifest;
  const bound = exports.filter(({ id }) => export_id === WHOLE_PACKAGE || id === export_id);
  const all = [runtime.permissions, ...bound.map(({ permissions }) => permissions)];
  return [...new Set(all.flatMap((permissions) => permissions?.secret_slots ?? []))];
}

/** Why the plugin needs the secret, as stated in its manifest; null if the manifest gives no reason. */
export function slotReason(pkg: Package | undefined, slot: string): string | null {
  if (pkg === undefined) return null;
  const { runtime, exports } = pkg.manifest;
  const all = [runtime.permissions, ...exports.map(({ permissions }) => permissions)];
  return (
    all.map((permissions) => permissions?.reasons?.[slot]).find((reason) => reason !== undefined) ?? null
  );
}
