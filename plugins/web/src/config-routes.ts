import { jsonResponse, parseFlag, pick, type ServedRoute } from "./route.ts";

const VALUE_BODY = {
  type: "object",
  properties: { value: {} },
  required: ["value"],
  additionalProperties: false,
};

/** The field that names the secrets that were dropped because their destination or plugin changed, if any. */
function toDroppedField(dropped: string[]): { dropped?: string[] } {
  return dropped.length === 0 ? {} : { dropped };
}

export const CONFIG_ROUTES: readonly ServedRoute[] = [
  {
    method: "GET",
    path: "/api/config",
    summary: "Read the whole configuration with secrets masked",
    scope: "config:read",
    responses: { 200: "Every key with its value or mask." },
    handle: async ({ service }) => jsonResponse(await service("config.list")),
  },
  {
    method: "GET",
    path: "/api/config/{key}",
    summary:
      "Read one key; ?show=1 returns a secret unmasked, needs the scope admin and is recorded in the audit log",
    scope: "config:read",
    responses: { 200: "The key with its value or mask.", 404: "The key is not set." },
    handle: async ({ params, query, service }) =>
      jsonResponse(await service("config.get", { key: params.key!, show: parseFlag(query.show) })),
  },
  {
    method: "PATCH",
    path: "/api/config/{key}",
    summary: "Write one key",
    scope: "config:write",
    body: VALUE_BODY,
    responses: { 200: "The key is written and in effect." },
    async handle({ params, body, service }) {
      const dropped = await service<string[]>("config.set", { values: { [params.key!]: body.value! } });
      return jsonResponse({ key: params.key!, ok: true, ...toDroppedField(dropped) });
    },
  },
  {
    method: "DELETE",
    path: "/api/config/{key}",
    summary: "Unset one key, or all keys with a prefix, such as a.b.*",
    scope: "config:write",
    responses: { 200: "`removed` is false if no key was set." },
    async handle({ params, service }) {
      const removed = await service<string[]>("config.unset", { pattern: params.key! });
      return jsonResponse({ key: params.key!, removed: removed.length > 0 });
    },
  },
  {
    method: "PATCH",
    path: "/api/config",
    summary: "Write several keys atomically",
    scope: "config:write",
    body: { type: "object", properties: { values: { type: "object" } }, required: ["values"] },
    responses: { 200: "All keys are written and in effect." },
    async handle({ body, service }) {
      const dropped = await service<string[]>("config.set", pick(body, "values"));
      return jsonResponse({ ok: true, ...toDroppedField(dropped) });
    },
  },
];
