import { jsonResponse, parseFlag, pick, type ServedRoute } from "./route.ts";

const fields = { label: { type: "string" }, config: { type: "object" } };

export const PROVIDER_ROUTES: readonly ServedRoute[] = [
  {
    method: "GET",
    path: "/api/llm-providers",
    summary:
      "List provider instances; ?show=1 returns their secrets, needs the scope admin and is recorded in the audit log",
    scope: "config:read",
    responses: { 200: "An array of instances." },
    handle: async ({ query, service }) =>
      jsonResponse(await service("providers.list", { show: parseFlag(query.show) })),
  },
  {
    method: "POST",
    path: "/api/llm-providers",
    summary: "Create an instance of a provider plugin",
    scope: "config:write",
    body: {
      type: "object",
      properties: { id: { type: "string" }, plugin: { type: "string" }, ...fields },
      required: ["plugin"],
      additionalProperties: false,
    },
    responses: {
      201: "The instance.",
      400: "The plugin is not a provider, or the id is not valid.",
      404: "There is no such plugin.",
      409: "The id is taken.",
    },
    handle: async ({ body, service }) =>
      jsonResponse(await service("providers.create", pick(body, "id", "plugin", "label", "config")), 201),
  },
  {
    method: "PATCH",
    path: "/api/llm-providers/active",
    summary: "Choose the instance that answers model calls, starting with the next one",
    scope: "config:write",
    body: {
      type: "object",
      properties: { name: { type: "string" } },
      required: ["name"],
      additionalProperties: false,
    },
    responses: { 200: "The instance is now active.", 404: "There is no such instance." },
    async handle({ body, service }) {
      await service("providers.activate", { id: body.name! });
      return jsonResponse({ active: body.name!, ok: true });
    },
  },
  {
    method: "PATCH",
    path: "/api/llm-providers/{id}",
    summary: "Change some fields of an instance",
    scope: "config:write",
    body: { type: "object", properties: fields, additionalProperties: false },
    responses: { 200: "The instance.", 404: "There is no such instance." },
    handle: async ({ params, body, service }) =>
      jsonResponse(await service("providers.patch", { ...pick(body, "label", "config"), id: params.id! })),
  },
  {
    method: "DELETE",
    path: "/api/llm-providers/{id}",
    summary: "Remove an instance",
    scope: "config:write",
    responses: {
      204: "The instance was removed.",
      404: "There is no such instance.",
      409: "The instance is active, or it is the last one of its plugin.",
    },
    async handle({ params, service }) {
      await service("providers.remove", { id: params.id! });
      return { status: 204 };
    },
  },
  {
    method: "POST",
    path: "/api/llm-providers/{id}/test",
    summary: "Test an instance with one small request, within 5 s",
    scope: "config:write",
    responses: {
      200: "Whether the instance answered, and the response time.",
      404: "There is no such instance.",
    },
    handle: async ({ params, service }) => jsonResponse(await service("providers.test", { id: params.id! })),
  },
];
