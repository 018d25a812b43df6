/** Routes of the adapter: their type, their dispatch and the readers of request values. */
import type {
  AdapterRequest,
  AdapterResponse,
  AdapterRoute,
  Json,
  JsonObject,
  PluginContext,
} from "@backplane/sdk/kernel";

export interface RouteCall {
  params: Record<string, string>;
  query: Record<string, string>;
  body: JsonObject;
  /** A kernel service, called on behalf of the caller. */
  service: <T = Json>(name: string, args?: JsonObject) => Promise<T>;
}

export interface ServedRoute extends AdapterRoute {
  handle: (call: RouteCall) => Promise<AdapterResponse>;
}

export function serveRoutes(routes: readonly ServedRoute[]) {
  const routes_by_name = new Map(routes.map((route) => [`${route.method} ${route.path}`, route]));
  return async (request: AdapterRequest, ctx: PluginContext): Promise<AdapterResponse> => {
    const route = routes_by_name.get(request.route)!;
    const { params, query, body, as } = request;
    const service = async <T>(name: string, args: JsonObject = {}) =>
      (await ctx.service(name, args, as)) as T;
    return await route.handle({ params, query, body: objectOf(body), service });
  };
}

export const jsonResponse = (body: Json, status = 200): AdapterResponse => ({ status, body });

/** Reads an integer from the query and caps it at `max`. Any other text becomes `fallback`. */
export function parseCount(text: string | undefined, fallback: number, max: number): number {
  const value = text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : fallback;
  return Math.min(value, max);
}

/** Reads `1` or `0`; any other value is passed through, and the service refuses it. */
export function parseFlag(text: string | undefined): boolean | string {
  if (text === undefined || text === "0") return false;
  return text === "1" ? true : text;
}

/** Copies the named fields that the request contains. */
export function pick(body: JsonObject, ...fields: string[]): JsonObject {
  return Object.fromEntries(
    fields.flatMap((field) => (body[field] === undefined ? [] : [[field, body[field]]])),
  );
}

function objectOf(body: Json): JsonObject {
  return typeof body === "object" && body !== null && !Array.isArray(body) ? body : {};
}
