/** One route of the adapter: what the gateway mounts, and what answers it. */
import type {
  AdapterAnswer,
  AdapterRequest,
  AdapterRoute,
  Json,
  JsonObject,
  PluginContext,
} from "@backplane/sdk/kernel";

export interface Call {
  params: Record<string, string>;
  query: Record<string, string>;
  body: JsonObject;
  /** A kernel service, on behalf of whoever asks. */
  service: <T = Json>(name: string, args?: JsonObject) => Promise<T>;
}

export interface Served extends AdapterRoute {
  handle: (call: Call) => Promise<AdapterAnswer>;
}

export function serveRoutes(routes: readonly Served[]) {
  const by = new Map(routes.map((route) => [`${route.method} ${route.path}`, route]));
  return async (request: AdapterRequest, ctx: PluginContext): Promise<AdapterAnswer> => {
    const route = by.get(request.route)!;
    const { params, query, body, as } = request;
    const service = async <T>(name: string, args: JsonObject = {}) =>
      (await ctx.service(name, args, as)) as T;
    return await route.handle({ params, query, body: objectOf(body), service });
  };
}

export const ok = (body: Json, status = 200): AdapterAnswer => ({ status, body });

/** A query's whole number, inside its bounds; anything else is left to the default. */
export function count(text: string | undefined, fallback: number, most: number): number {
  const value = text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : fallback;
  return Math.min(value, most);
}

/** `1` or `0`; anything else goes on as it is, and the service refuses it. */
export function switchOf(text: string | undefined): boolean | string {
  if (text === undefined || text === "0") return false;
  return text === "1" ? true : text;
}

/** Only the fields that were sent. */
export function picked(body: JsonObject, ...fields: string[]): JsonObject {
  return Object.fromEntries(
    fields.flatMap((field) => (body[field] === undefined ? [] : [[field, body[field]]])),
  );
}

function objectOf(body: Json): JsonObject {
  return typeof body === "object" && body !== null && !Array.isArray(body) ? body : {};
}
