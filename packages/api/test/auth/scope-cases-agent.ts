/**
 * The cases of the matrix that belong to the agent host: model calls, configuration, providers, plugins, sessions,
 * chains, runs and compactions.
 */
import { type Case, NOTHING_TO_CHANGE, onMissingObject } from "./scope-matrix.ts";

const session = (path: (id: string) => string, body: unknown = {}): Pick<Case, "request" | "also"> => ({
  async request(fixture) {
    const session_id = fixture.next("s");
    await fixture.admin("POST", "/v1/sessions", { session_id });
    return { path: path(session_id), body };
  },
  also: [409, 422],
});

/** A session is found by its name in a project; a credential of the whole org has no project. */
const SESSION = {
  object: "session",
  scope: "sessions:write",
  reach: "project",
  except: { org: [404] },
} as const;
/** A request for a session that does not exist creates it in the caller's own scope. */
const NAMED_SESSION = { object: "session by name", scope: "sessions:write", reach: "own" } as const;
const PLUGIN = { object: "kernel plugin", scope: "plugins:write", reach: "default" } as const;
const CONFIG = { scope: "config:write", reach: "named" } as const;

const config = (object: string, key: string, value: unknown, more: Partial<Case> = {}): Case => ({
  ...CONFIG,
  object,
  request: () => ({ path: `/api/config/${key}`, body: { value } }),
  ...more,
});

/** A call is recorded in the caller's own scope and sent to an instance of the caller's org. */
const modelCall = (path: string, body: object): readonly Case[] => [
  {
    object: "model call",
    scope: "llm:invoke",
    reach: "own",
    request: () => ({ path, body: { model: "llm-echo/echo", ...body } }),
  },
];
const messages = [{ role: "user", content: "hello" }];

export const AGENT_CASES: Readonly<Record<string, readonly Case[]>> = {
  "POST /v1/chat/completions": modelCall("/v1/chat/completions", { messages }),
  "POST /v1/responses": modelCall("/v1/responses", { input: "hello" }),
  "POST /v1/messages": modelCall("/v1/messages", { messages, max_tokens: 64 }),
  "POST /v1/messages/count_tokens": modelCall("/v1/messages/count_tokens", { messages }),
  "PATCH /api/config/{key}": [
    config("any key", "acme.color", "blue"),
    config("the active provider", "provider", "llm-echo"),
    config("the address of a provider", "providers.llm-echo.base_url", "https://a.example"),
    config("the enabled flag of a plugin", "plugin.spare.enabled", true, { except: { foreignOrg: [200] } }),
    config("the rights of a plugin", "plugin.spare.services", [], {
      // The setting is read only in the default org and refused in others, where it would have no effect. An API key of
      // the org needs the scope admin.
      except: { foreignOrg: [403], org: [403] },
    }),
    config("a private address", "providers.llm-echo.allow_private", "localhost:1", { reach: "host" }),
  ],
  "PATCH /api/config": [
    {
      ...CONFIG,
      object: "several keys",
      request: () => ({ path: "/api/config", body: { values: { "acme.b": 1, "acme.c": 2 } } }),
    },
    {
      ...CONFIG,
      object: "several keys, one of which affects the host",
      reach: "host",
      request: () => ({
        path: "/api/config",
        body: { values: { "acme.d": 1, "providers.llm-echo.allow_private": "localhost:2" } },
      }),
    },
  ],
  "DELETE /api/config/{key}": [
    {
      ...CONFIG,
      object: "any key",
      async request(fixture) {
        const key = `acme.${fixture.next("k")}`;
        await fixture.admin("PATCH", `/api/config/${key}`, { value: 1 });
        return { path: `/api/config/${key}` };
      },
    },
    {
      ...CONFIG,
      object: "the enabled flags of all plugins",
      async request(fixture) {
        await fixture.admin("PATCH", "/api/config/plugin.spare.enabled", { value: true });
        return { path: "/api/config/plugin.*" };
      },
      // The prefix also contains rights of plugins, which need an admin.
      except: { foreignOrg: [403], org: [403] },
    },
  ],
  "POST /api/llm-providers": [
    {
      ...CONFIG,
      object: "provider",
      request: (fixture) => ({
        path: "/api/llm-providers",
        body: { id: fixture.next("new"), plugin: "llm-spare" },
      }),
    },
    {
      ...CONFIG,
      object: "provider at a private address",
      reach: "host",
      request: (fixture) => ({
        path: "/api/llm-providers",
        body: {
          id: fixture.next("new"),
          plugin: "llm-spare",
          config: { base_url: "http://localhost:1", allow_private: true },
        },
      }),
    },
  ],
  "PATCH /api/llm-providers/{id}": [
    {
      ...CONFIG,
      object: "provider",
      request: async (fixture) => ({
        path: `/api/llm-providers/${await fixture.provider()}`,
        body: { config: { base_url: "https://evil.example" } },
      }),
      except: { foreignOrg: [404] },
    },
  ],
  "PATCH /api/llm-providers/active": [
    {
      ...CONFIG,
      object: "the active provider",
      request: () => ({ path: "/api/llm-providers/active", body: { name: "llm-echo" } }),
    },
  ],
  "DELETE /api/llm-providers/{id}": [
    {
      ...CONFIG,
      object: "provider",
      request: async (fixture) => ({ path: `/api/llm-providers/${await fixture.provider()}` }),
      except: { foreignOrg: [404] },
      also: [409],
    },
  ],
  // Sends a question to the org's provider, as any turn does; it changes nothing.
  "POST /api/llm-providers/{id}/test": [
    {
      ...CONFIG,
      object: "a question to a provider",
      reach: "own",
      request: () => ({ path: "/api/llm-providers/llm-echo/test" }),
    },
  ],
  "PATCH /api/plugins/{name}": [
    { ...PLUGIN, request: () => ({ path: "/api/plugins/spare", body: { enabled: true } }) },
  ],
  "PATCH /v1/plugins/{name}": [
    { ...PLUGIN, request: () => ({ path: "/v1/plugins/spare", body: { enabled: true } }) },
  ],
  // The loader of this test installs nothing and reports that to authorized callers.
  "POST /v1/plugins:inspect": [
    { ...PLUGIN, request: () => ({ path: "/v1/plugins:inspect", body: { source: "acme" } }), also: [500] },
  ],
  "POST /v1/plugins:install": [
    { ...PLUGIN, request: () => ({ path: "/v1/plugins:install", body: { source: "acme" } }), also: [500] },
  ],
  "POST /api/plugins/inspect": [
    { ...PLUGIN, request: () => ({ path: "/api/plugins/inspect", body: { source: "acme" } }), also: [502] },
  ],
  "POST /api/plugins/install": [
    { ...PLUGIN, request: () => ({ path: "/api/plugins/install", body: { source: "acme" } }), also: [502] },
  ],
  "POST /api/plugins/{name}/reload": [{ ...PLUGIN, request: () => ({ path: "/api/plugins/spare/reload" }) }],
  "DELETE /api/plugins/{name}": [{ ...PLUGIN, request: () => ({ path: "/api/plugins/web" }), also: [400] }],
  "POST /api/sessions/{id}/message": [
    { ...NAMED_SESSION, ...session((id) => `/api/sessions/${id}/message`, { text: "/say x" }) },
  ],
  "POST /api/sessions/{id}/interrupt": [{ ...SESSION, ...session((id) => `/api/sessions/${id}/interrupt`) }],
  "POST /api/sessions/{id}/fork": [{ ...SESSION, ...session((id) => `/api/sessions/${id}/fork`) }],
  "POST /api/sessions/{id}/handoff": [
    { ...SESSION, ...session((id) => `/api/sessions/${id}/handoff`, { name: "n", state: {} }) },
  ],
  "POST /api/sessions/{id}/reset": [{ ...SESSION, ...session((id) => `/api/sessions/${id}/reset`) }],
  "POST /api/sessions/{id}/compact": [
    { ...SESSION, ...session((id) => `/api/sessions/${id}/compact`), also: NOTHING_TO_CHANGE },
  ],
  "POST /api/sessions/{id}/undo-compaction": [
    { ...SESSION, ...session((id) => `/api/sessions/${id}/undo-compaction`), also: NOTHING_TO_CHANGE },
  ],
  "POST /v1/sessions": [
    {
      ...NAMED_SESSION,
      request: (fixture) => ({ path: "/v1/sessions", body: { session_id: fixture.next("s") } }),
    },
  ],
  "PATCH /v1/sessions/{id}": [
    { ...SESSION, ...session((id) => `/v1/sessions/${id}`, { metadata: { a: 1 } }) },
  ],
  "POST /v1/sessions/{id}:branch": [{ ...SESSION, ...session((id) => `/v1/sessions/${id}:branch`) }],
  "POST /v1/sessions/{id}/messages": [
    { ...NAMED_SESSION, ...session((id) => `/v1/sessions/${id}/messages`, { text: "/say x" }) },
  ],
  "POST /v1/sessions/{id}:interrupt": [{ ...SESSION, ...session((id) => `/v1/sessions/${id}:interrupt`) }],
  "POST /v1/sessions/{id}:reset": [{ ...SESSION, ...session((id) => `/v1/sessions/${id}:reset`) }],
  "POST /v1/sessions/{id}:handoff": [
    { ...SESSION, ...session((id) => `/v1/sessions/${id}:handoff`, { name: "n", state: {} }) },
  ],
  "POST /v1/sessions/{id}/pins": [
    { ...SESSION, ...session((id) => `/v1/sessions/${id}/pins`, { entry_id: 1 }), also: NOTHING_TO_CHANGE },
  ],
  "DELETE /v1/sessions/{id}/pins/{entry_id}": [
    { ...SESSION, ...session((id) => `/v1/sessions/${id}/pins/1`) },
  ],
  "POST /v1/chains": [
    { ...SESSION, object: "chain", reach: "own", except: {}, ...onMissingObject("/v1/chains") },
  ],
  "POST /v1/chains/{id}:fork": [
    {
      ...SESSION,
      object: "chain",
      reach: "own",
      except: {},
      ...onMissingObject("/v1/chains/chain_none:fork"),
    },
  ],
  "POST /v1/chains/{id}/blocks": [
    {
      ...SESSION,
      object: "chain",
      reach: "own",
      except: {},
      ...onMissingObject("/v1/chains/chain_none/blocks", { blocks: [] }),
    },
  ],
  "POST /v1/runs": [
    {
      ...NAMED_SESSION,
      object: "run",
      ...session(() => "/v1/runs", {}),
      request: (fixture) => ({
        path: "/v1/runs",
        body: { session_id: fixture.next("r"), input: { text: "/say x" } },
      }),
    },
  ],
  "POST /v1/runs/{id}:cancel": [
    { ...SESSION, object: "run", reach: "own", except: {}, ...onMissingObject("/v1/runs/run_none:cancel") },
  ],
  "POST /v1/compactions": [
    {
      ...SESSION,
      object: "compaction",
      reach: "own",
      except: {},
      ...onMissingObject("/v1/compactions", { session_id: "none" }),
    },
  ],
  "POST /v1/compactions/{id}:undo": [
    {
      ...SESSION,
      object: "compaction",
      reach: "own",
      except: {},
      ...onMissingObject("/v1/compactions/none:undo"),
    },
  ],
};
