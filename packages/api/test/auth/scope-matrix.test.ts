/**
 * Every POST, PUT, PATCH and DELETE operation × every kind of credential × objects of a project, an org and the host.
 */
import { join } from "node:path";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { KEY_SCOPES, type KernelPlugin, type KeyScope } from "@backplane/contract";
import { afterAll, beforeAll, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { loadBundledPlugins } from "../support/bundled-plugins.ts";
import { packToBuffer } from "../support/pack-to-buffer.ts";
import { writeSamplePackage } from "../support/sample-package.ts";
import { startApi, type TestApi } from "../support/start-api.ts";
import { MATRIX } from "./scope-cases.ts";
import {
  type Case,
  CREDENTIAL_KINDS,
  type CredentialKind,
  type Reach,
  type ScopeFixture,
} from "./scope-matrix.ts";

interface ReadQuery {
  sql: StatementSync;
  /** Whether the rows belong to an org, which is then the parameter of the query. */
  by_org: boolean;
}

let api: TestApi;
let database: DatabaseSync;
let row_queries: Map<string, ReadQuery>;
let count = 0;
const tokens = new Map<string, string>();

beforeAll(async () => {
  const spare: KernelPlugin = { name: "spare", version: "1.0.0", category: "skill", subscriptions: () => [] };
  const model: KernelPlugin = { ...spare, name: "llm-spare", category: "llm-provider" };
  api = await startApi({
    plugins: await loadBundledPlugins("web", "llm-echo", "strategy-react", spare, model),
  });
  database = new DatabaseSync(join(api.home, "store.db"), { readOnly: true });
  row_queries = new Map(TABLES.map((table) => [table, prepareRead(table)]));
  const source = { folder: writeSamplePackage(api.home) };
  await fixture.admin("POST", "/v1/plugin-packages", { source });
});
afterAll(async () => {
  database?.close();
  await api?.close();
});

const SCOPES_OF: Record<
  Exclude<CredentialKind, "nobody" | "host">,
  { org_id: string; project_id: string | null }
> = {
  missingScope: { org_id: "org_local", project_id: "proj_default" },
  project: { org_id: "org_local", project_id: "proj_default" },
  projectAdmin: { org_id: "org_local", project_id: "proj_default" },
  otherProject: { org_id: "org_local", project_id: "proj_2" },
  org: { org_id: "org_local", project_id: null },
  foreignOrg: { org_id: "org_other", project_id: null },
};

/** Null for no credential. Undefined for the host's admin, whose token `call` sends by default. */
async function issueToken(who: CredentialKind, scope: Case["scope"]): Promise<string | null | undefined> {
  if (who === "nobody") return null;
  if (who === "host") return undefined;
  const name = `${who} ${scope}`;
  let token = tokens.get(name);
  if (token === undefined) {
    const body = { name, role: "owner", scopes: chooseScopes(who, scope), ...SCOPES_OF[who] };
    token = (await fixture.admin("POST", "/v1/keys", body)).token as string;
    tokens.set(name, token);
  }
  return token;
}

function chooseScopes(who: CredentialKind, scope: Case["scope"]): KeyScope[] {
  if (who === "missingScope") return KEY_SCOPES.filter((granted) => granted !== "admin" && granted !== scope);
  if (who === "projectAdmin" || scope === "host") return ["admin"];
  return [scope === "any" ? "exports:read" : scope];
}

const installPackage = () =>
  fixture.admin("POST", "/v1/plugin-packages", { source: { folder: fixture.folder() } });

const fixture: ScopeFixture = {
  next: (stem) => `${stem}-${++count}`,
  async admin(method, path, body) {
    const { status, json, text } = await api.call(method, path, body === undefined ? {} : { body });
    expect(status, `${method} ${path} ${text}`).toBeLessThan(300);
    return json;
  },
  async as(who, scope, method, path, body) {
    const { status, json, text } = await api.call(method, path, {
      body,
      token: (await issueToken(who, scope))!,
    });
    expect(status, `${method} ${path} ${text}`).toBeLessThan(300);
    return json;
  },
  async binding(org_wide, export_id = "echo") {
    const package_version = await fixture.version();
    const body = { package_id: "acme/devkit", package_version, export_id, org_wide };
    return (await fixture.admin("POST", "/v1/plugin-bindings", body)).binding_id as string;
  },
  package: async () => (await installPackage()).id as string,
  version: async () => (await installPackage()).version as string,
  archive: () => packToBuffer(fixture.folder()),
  folder: () => writeSamplePackage(api.home, `1.0.${++count}`),
  async provider() {
    const id = fixture.next("mine");
    const config = { base_url: "https://a.example", api_key: "sk-of-the-org" };
    await fixture.admin("POST", "/api/llm-providers", { id, plugin: "llm-spare", config });
    return id;
  },
};

/**
 * The expected status for each credential, by whom the change affects. `ok` is 2xx, or a status that the case allows.
 */
const EXPECTED: Record<Reach, Record<CredentialKind, "ok" | number>> = {
  own: expectStatuses(["ok", "ok", "ok", "ok", "ok"]),
  project: expectStatuses([404, "ok", "ok", 404, "ok"]),
  org: expectStatuses([403, 403, 403, 404, "ok"]),
  named: expectStatuses([403, 403, 403, "ok", "ok"]),
  default: expectStatuses([403, 403, 403, 403, "ok"]),
  host: expectStatuses([403, 403, 403, 403, 403]),
};

function expectStatuses(
  statuses: ["ok" | number, "ok" | number, "ok" | number, "ok" | number, "ok" | number],
) {
  const [otherProject, project, projectAdmin, foreignOrg, org] = statuses;
  return {
    nobody: 401,
    missingScope: 403,
    otherProject,
    project,
    projectAdmin,
    foreignOrg,
    org,
    host: "ok",
  } as const;
}

/** The tables that a refused request must not change. */
const TABLES = [
  "config",
  "secrets",
  "api_keys",
  "packages",
  "bindings",
  "binding_secrets",
  "policies",
  "definitions",
  "sign_ins",
  "logins",
];

/** The checksum of a row covers all its columns. Reading the columns themselves took most of the time of this file. */
function dumpRows(org_id?: string): string {
  return TABLES.map((table) => {
    const { sql, by_org } = row_queries.get(table)!;
    const row = by_org ? sql.get(org_id ?? null) : sql.get();
    return `${table} ${String(row!.rows)}`;
  }).join("\n");
}

function prepareRead(table: string): ReadQuery {
  const columns = database.prepare(`pragma table_info(${table})`).all() as { name: string }[];
  expect(columns.map(({ name }) => name)).toContain("sum");
  const by_org = columns.some(({ name }) => name === "org_id");
  const text = by_org
    ? `select group_concat(org_id || ' ' || sum) as rows
        from (select org_id, sum from ${table} where org_id = coalesce(?, org_id) order by 1, 2)`
    : `select group_concat(sum) as rows from (select sum from ${table} order by 1)`;
  return { sql: database.prepare(text), by_org };
}

const readPluginStates = async () => (await fixture.admin("GET", "/api/plugins")).plugins;

verifies(
  "sec.scope-of-change",
  "lists in the matrix every POST, PUT, PATCH and DELETE operation of the OpenAPI document, and no other",
  async () => {
    const { paths } = (await fixture.admin("GET", "/openapi.json")) as { paths: Record<string, object> };
    const served = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods)
        .filter((method) => /^(post|put|patch|delete)$/.test(method))
        .map((method) => `${method.toUpperCase()} ${path}`),
    );
    expect(served.length).toBeGreaterThan(50);
    expect(Object.keys(MATRIX).toSorted()).toEqual(served.toSorted());
  },
);

for (const [operation, cases] of Object.entries(MATRIX)) {
  const [method] = operation.split(" ") as [string];
  for (const scope_case of cases) {
    verifies(
      "sec.scope-of-change",
      `accepts ${operation} (${scope_case.object}) only with a credential that may change it`,
      async () => {
        for (const who of CREDENTIAL_KINDS) await checkCase(method, operation, scope_case, who);
      },
    );
  }
}

async function checkCase(
  method: string,
  operation: string,
  scope_case: Case,
  who: CredentialKind,
): Promise<void> {
  const token = await issueToken(who, scope_case.scope);
  const { path, body, headers = {} } = await scope_case.request(fixture);
  const state_before = { all: dumpRows(), own_org: dumpRows("org_local"), plugins: await readPluginStates() };
  const response = await api.call(method, path, { body, headers, ...(token === undefined ? {} : { token }) });
  const summary = `${operation} (${scope_case.object}) by ${who}: ${response.status} ${response.text.slice(0, 300)}`;
  // If any credential is accepted, no credential lacks the scope.
  const normal =
    who === "missingScope" && scope_case.scope === "any" ? "ok" : EXPECTED[scope_case.reach][who];
  const expected = scope_case.except?.[who] ?? normal;
  if (expected === "ok") {
    const accepted = response.status < 300 || scope_case.also?.includes(response.status) === true;
    expect(accepted, summary).toBe(true);
  } else if (typeof expected === "number") expect(response.status, summary).toBe(expected);
  else expect(expected, summary).toContain(response.status);
  // A refusal changes nothing, and another org's credential changes nothing of this org.
  if (expected !== "ok" && response.status >= 400) expect(dumpRows(), summary).toBe(state_before.all);
  if (who === "foreignOrg") expect(dumpRows("org_local"), summary).toBe(state_before.own_org);
  if (response.status >= 400) expect(await readPluginStates(), summary).toEqual(state_before.plugins);
}

test("disables a plugin with /api/plugins and enables it with /api/config", async () => {
  const token = (await issueToken("org", "plugins:write"))!;
  const readState = async () =>
    ((await readPluginStates()) as { name: string; status: string }[]).find(({ name }) => name === "spare")
      ?.status;
  await api.call("PATCH", "/api/plugins/spare", { body: { enabled: false }, token });
  expect(await readState()).toBe("disabled");
  const config = (await issueToken("org", "config:write"))!;
  await api.call("PATCH", "/api/config/plugin.spare.enabled", { body: { value: true }, token: config });
  await expect.poll(readState).toBe("loaded");
});
