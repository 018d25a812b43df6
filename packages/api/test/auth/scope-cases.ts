/**
 * Every POST, PUT, PATCH and DELETE operation with the objects that it changes and whom each change affects. The test
 * reads the operations from the served OpenAPI document and fails for one that is missing here.
 */
import { generateKeyPairSync } from "node:crypto";
import type { KeyScope } from "@backplane/contract";
import { AGENT_CASES } from "./scope-cases-agent.ts";
import { HOOK_CASES } from "./scope-cases-hooks.ts";
import { PACKAGE_CASES } from "./scope-cases-packages.ts";
import { type Case, onMissingObject, type Reach, type Request, type ScopeFixture } from "./scope-matrix.ts";

/** Each key can be trusted once. */
const newSigningKey = () =>
  generateKeyPairSync("ed25519").publicKey.export({ type: "spki", format: "pem" }) as string;

const bindingBody = async (fixture: ScopeFixture) => ({
  package_id: "acme/devkit",
  package_version: await fixture.version(),
  export_id: "echo",
});

export const MATRIX: Readonly<Record<string, readonly Case[]>> = {
  ...AGENT_CASES,
  ...HOOK_CASES,
  ...PACKAGE_CASES,
  "POST /v1/plugin-bindings": [
    {
      object: "binding of a project",
      scope: "bindings:write",
      reach: "own",
      request: async (fixture) => ({ path: "/v1/plugin-bindings", body: await bindingBody(fixture) }),
      // Nothing is installed in the other org.
      also: [422],
    },
    {
      object: "binding of an org",
      scope: "bindings:write",
      reach: "named",
      request: async (fixture) => ({
        path: "/v1/plugin-bindings",
        body: { ...(await bindingBody(fixture)), org_wide: true },
      }),
      except: { foreignOrg: [422] },
    },
  ],
  "PATCH /v1/plugin-bindings/{id}": bindings("bindings:write", (id) => ({
    path: `/v1/plugin-bindings/${id}`,
    body: { status: "disabled" },
  })),
  "DELETE /v1/plugin-bindings/{id}": bindings("bindings:write", (id) => ({
    path: `/v1/plugin-bindings/${id}`,
  })),
  // No binding has a previous version yet, so authorized callers get status 400.
  "POST /v1/plugin-bindings/{id}:rollback": bindings("bindings:write", (id) => ({
    path: `/v1/plugin-bindings/${id}:rollback`,
  })).map((scope_case) => ({ ...scope_case, also: [400] })),
  "POST /v1/plugin-bindings:upgrade": [
    {
      object: "bindings of a project",
      scope: "bindings:write",
      reach: "own",
      ...onMissingObject("/v1/plugin-bindings:upgrade", {
        package_id: "acme/none",
        package_version: "2.0.0",
      }),
    },
    {
      object: "bindings of an org",
      scope: "bindings:write",
      reach: "named",
      ...onMissingObject("/v1/plugin-bindings:upgrade", {
        package_id: "acme/none",
        package_version: "2.0.0",
        org_wide: true,
      }),
    },
  ],
  "POST /v1/plugin-bindings:rollback": [
    {
      object: "bindings of a project",
      scope: "bindings:write",
      reach: "own",
      ...onMissingObject("/v1/plugin-bindings:rollback", { package_id: "acme/none" }),
    },
    {
      object: "bindings of an org",
      scope: "bindings:write",
      reach: "named",
      ...onMissingObject("/v1/plugin-bindings:rollback", { package_id: "acme/none", org_wide: true }),
    },
  ],
  // The operation changes nothing, so every caller that sees the binding may use it.
  "POST /v1/plugin-bindings/{id}:validate": [
    {
      object: "binding of a project",
      scope: "bindings:read",
      reach: "project",
      request: async (fixture) => ({ path: `/v1/plugin-bindings/${await fixture.binding(false)}:validate` }),
    },
  ],
  // No server runs here; the registry's tests cover who may accept the tools of an org's binding.
  "POST /v1/plugin-bindings/{id}:describe": [
    {
      object: "tools of a binding",
      scope: "bindings:write",
      reach: "project",
      request: async (fixture) => ({ path: `/v1/plugin-bindings/${await fixture.binding(false)}:describe` }),
      also: [400],
    },
  ],
  "POST /v1/plugin-bindings/{id}:accept": [
    {
      object: "tools of a binding",
      scope: "bindings:write",
      reach: "project",
      request: async (fixture) => ({
        path: `/v1/plugin-bindings/${await fixture.binding(false)}:accept`,
        body: { export_id: "*" },
      }),
      also: [400],
    },
  ],
  "POST /v1/plugin-bindings/{id}:login": [
    {
      object: "sign-in of a binding",
      scope: "admin",
      reach: "project",
      request: async (fixture) => ({
        path: `/v1/plugin-bindings/${await fixture.binding(false)}:login`,
        body: {},
      }),
      also: [400],
    },
  ],
  "POST /v1/plugin-bindings/{id}:logout": [
    {
      object: "sign-in of a binding",
      scope: "admin",
      reach: "project",
      request: async (fixture) => ({ path: `/v1/plugin-bindings/${await fixture.binding(false)}:logout` }),
      also: [400],
    },
  ],
  "POST /v1/sign-ins:complete": [
    {
      object: "sign-in that the caller began",
      scope: "admin",
      reach: "own",
      ...onMissingObject("/v1/sign-ins:complete", { redirect: "https://a.example/?state=x" }),
      also: [400, 404, 409, 410, 422],
    },
  ],
  "POST /v1/instrument-plugins": [
    {
      object: "folder on the host",
      scope: "host",
      reach: "host",
      request: (fixture) => ({ path: "/v1/instrument-plugins", body: { path: fixture.folder() } }),
      also: [422],
    },
  ],
  "DELETE /v1/instrument-plugins/{id}": [
    {
      object: "instrument plugin",
      scope: "admin",
      reach: "own",
      ...onMissingObject("/v1/instrument-plugins/none"),
    },
  ],
  "PUT /v1/secrets/{name}": [
    {
      object: "secret of an org",
      scope: "secrets:write",
      reach: "named",
      async request(fixture) {
        const name = fixture.next("secret");
        await fixture.admin("PUT", `/v1/secrets/${name}`, { value: "of the org" });
        return { path: `/v1/secrets/${name}`, body: { value: "of somebody" } };
      },
    },
    {
      object: "secret of a project",
      scope: "secrets:write",
      reach: "project",
      async request(fixture) {
        const name = fixture.next("secret");
        await fixture.as("project", "secrets:write", "PUT", `/v1/secrets/${name}`, {
          value: "of the project",
        });
        return { path: `/v1/secrets/${name}`, body: { value: "of somebody" } };
      },
      // The name is in use in this org and free in another.
      except: { otherProject: [403], foreignOrg: [200] },
    },
    {
      object: "new secret",
      scope: "secrets:write",
      reach: "own",
      request: (fixture) => ({ path: `/v1/secrets/${fixture.next("new")}`, body: { value: "mine" } }),
    },
  ],
  "DELETE /v1/secrets/{name}": [
    {
      object: "secret of an org",
      scope: "secrets:write",
      reach: "org",
      async request(fixture) {
        const name = fixture.next("secret");
        await fixture.admin("PUT", `/v1/secrets/${name}`, { value: "of the org" });
        return { path: `/v1/secrets/${name}` };
      },
    },
    {
      object: "secret of a project",
      scope: "secrets:write",
      reach: "project",
      async request(fixture) {
        const name = fixture.next("secret");
        await fixture.as("project", "secrets:write", "PUT", `/v1/secrets/${name}`, {
          value: "of the project",
        });
        return { path: `/v1/secrets/${name}` };
      },
      except: { otherProject: [403] },
    },
  ],
  "POST /v1/secret-keys": [
    {
      object: "master key",
      scope: "host",
      reach: "host",
      request: () => ({ path: "/v1/secret-keys", body: { new_key: false } }),
    },
  ],
  "PUT /v1/policy": policies((level) => ({ path: `/v1/policy?level=${level}`, body: {} })),
  "PATCH /v1/policy": policies((level) => ({ path: `/v1/policy?level=${level}`, body: {} })),
  "POST /v1/keys": [
    {
      object: "key of a project",
      scope: "keys:write",
      reach: "own",
      request: () => ({ path: "/v1/keys", body: { name: "k", scopes: ["keys:write"] } }),
    },
    {
      object: "key of an org",
      scope: "keys:write",
      reach: "named",
      request: () => ({ path: "/v1/keys", body: { name: "k", project_id: null, scopes: ["keys:write"] } }),
    },
    {
      object: "key of another org",
      scope: "keys:write",
      reach: "host",
      request: () => ({ path: "/v1/keys", body: { name: "k", org_id: "org_third", scopes: ["keys:write"] } }),
    },
    {
      object: "key with a scope that the caller lacks",
      scope: "keys:write",
      reach: "own",
      request: () => ({ path: "/v1/keys", body: { name: "k", scopes: ["secrets:write"] } }),
      except: { project: [403], otherProject: [403], foreignOrg: [403], org: [403] },
    },
  ],
  "DELETE /v1/keys/{id}": [
    {
      object: "key of a project",
      scope: "keys:write",
      reach: "project",
      async request(fixture) {
        const { key } = await fixture.admin("POST", "/v1/keys", { name: "k", scopes: ["keys:write"] });
        return { path: `/v1/keys/${(key as { id: string }).id}` };
      },
    },
    {
      object: "key of an org",
      scope: "keys:write",
      reach: "org",
      async request(fixture) {
        const body = { name: "k", project_id: null, scopes: ["keys:write"] };
        const { key } = await fixture.admin("POST", "/v1/keys", body);
        return { path: `/v1/keys/${(key as { id: string }).id}?project=*` };
      },
      // A project's credential does not see the key.
      except: { project: [404], otherProject: [404], projectAdmin: [404] },
    },
  ],
  "POST /v1/trusted-keys": [
    {
      object: "signing key",
      scope: "keys:write",
      reach: "host",
      request: () => ({ path: "/v1/trusted-keys", body: { name: "k", public_key: newSigningKey() } }),
    },
  ],
  "POST /v1/trusted-keys/{id}:revoke": [
    {
      object: "signing key",
      scope: "keys:write",
      reach: "host",
      async request(fixture) {
        const body = { name: "k", public_key: newSigningKey() };
        const { id } = await fixture.admin("POST", "/v1/trusted-keys", body);
        return { path: `/v1/trusted-keys/${String(id)}:revoke`, body: {} };
      },
    },
  ],
  "POST /v1/invocations": [
    {
      object: "call to an org's binding",
      scope: "invocations:write",
      reach: "own",
      request: async (fixture) => ({
        path: "/v1/invocations",
        body: { binding_id: await fixture.binding(true), input: {} },
      }),
      also: [404],
    },
  ],
  "POST /v1/invocations/{id}:cancel": [
    {
      object: "call",
      scope: "invocations:write",
      reach: "project",
      async request(fixture) {
        const call = { binding_id: await fixture.binding(false), input: { do: "wait" } };
        const { id } = await fixture.admin("POST", "/v1/invocations", call);
        return { path: `/v1/invocations/${String(id)}:cancel` };
      },
    },
  ],
  "POST /v1/approvals/{id}:answer": [
    {
      object: "approval",
      scope: "approvals:answer",
      reach: "own",
      ...onMissingObject("/v1/approvals/none:answer", { response: "reject" }),
    },
  ],
  "DELETE /v1/approval-grants/{id}": [
    {
      object: "approval of a session",
      scope: "approvals:answer",
      reach: "own",
      ...onMissingObject("/v1/approval-grants/none"),
    },
  ],
  "POST /v1/allow-rules": [
    {
      object: "allow rule of a project",
      scope: "approvals:answer",
      reach: "own",
      ...onMissingObject("/v1/allow-rules", { tool: "none" }),
    },
    {
      object: "allow rule of an org",
      scope: "approvals:answer",
      reach: "named",
      ...onMissingObject("/v1/allow-rules", { tool: "none", org_wide: true }),
    },
  ],
  "DELETE /v1/allow-rules/{id}": [
    {
      object: "allow rule of a project",
      scope: "approvals:answer",
      reach: "project",
      request: allowRule(false),
    },
    { object: "allow rule of an org", scope: "approvals:answer", reach: "org", request: allowRule(true) },
  ],
  "POST /v1/workspaces": [
    {
      object: "folder on the host",
      scope: "host",
      reach: "host",
      ...onMissingObject("/v1/workspaces", { path: "/tmp", digest: "x" }),
    },
  ],
  "POST /v1/workspaces:review": [
    {
      object: "folder on the host",
      scope: "host",
      reach: "host",
      ...onMissingObject("/v1/workspaces:review", { path: "/tmp" }),
    },
  ],
  "DELETE /v1/workspaces/{id}": [
    { object: "folder on the host", scope: "host", reach: "host", ...onMissingObject("/v1/workspaces/none") },
  ],
  "POST /v1/login-links": [
    {
      object: "login of the host's admin",
      scope: "host",
      reach: "host",
      request: () => ({ path: "/v1/login-links", body: {} }),
    },
  ],
  "POST /v1/logout": [
    {
      object: "the caller's own cookie",
      scope: "any",
      reach: "own",
      request: () => ({ path: "/v1/logout" }),
    },
  ],
  "POST /mcp": [mcp("/mcp")],
  "DELETE /mcp": [mcp("/mcp")],
  "POST /mcp/servers/{server}": [mcp("/mcp/servers/none")],
  "DELETE /mcp/servers/{server}": [mcp("/mcp/servers/none")],
};

/** Each call of an MCP client is checked by its own rules; the only object checked here is the protocol session. */
function mcp(path: string): Case {
  return {
    object: "session of an MCP client",
    scope: "any",
    reach: "own",
    request: () => ({ path, body: {} }),
    also: [400, 403, 404, 405, 406, 415],
  };
}

function allowRule(org_wide: boolean) {
  return async (fixture: ScopeFixture): Promise<Request> => {
    await fixture.binding(true);
    const { id } = await fixture.admin("POST", "/v1/allow-rules", { tool: "echo", org_wide });
    return { path: `/v1/allow-rules/${String(id)}` };
  };
}

function bindings(scope: KeyScope, request: (id: string) => Request): Case[] {
  const makeCase = (object: string, reach: Reach, org_wide: boolean): Case => ({
    object,
    scope,
    reach,
    request: async (fixture) => request(await fixture.binding(org_wide)),
  });
  return [makeCase("binding of a project", "project", false), makeCase("binding of an org", "org", true)];
}

function policies(request: (level: string) => Request): Case[] {
  return [
    { object: "policy of an org", scope: "policy:write", reach: "named", request: () => request("org") },
    {
      object: "policy of a project",
      scope: "policy:write",
      reach: "own",
      request: () => request("project"),
      // A caller without a project has to specify one.
      except: { org: [400], foreignOrg: [400] },
    },
  ];
}
