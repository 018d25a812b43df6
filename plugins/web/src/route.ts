/** One route of the adapter: the mounted path and its handler. */
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
  /** A kernel service, called on behalf of the caller. */
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

/** An integer of the query within its bounds; any other value falls back to the default. */
export function count(text: string | undefined, fallback: number, most: number): number {
  const value = text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : fallback;
  return Math.min(value, most);
}

/** Reads `1` or `0`; any other value is passed through, and the service refuses it. */
export function switchOf(text: string | undefined): boolean | string {
  if (text === undefined || text === "0") return false;
  return text === "1" ? true : text;
}

/** Only the fields that the request contains. */
export function picked(body: JsonObject, ...fields: string[]): JsonObject {
  return Object.fromEntries(
    fields.flatMap((field) => (body[field] === undefined ? [] : [[field, body[field]]])),
  );
}

function objectOf(body: Json): JsonObject {
  return typeof body === "object" && body !== null && !Array.isArray(body) ? body : {};
}
