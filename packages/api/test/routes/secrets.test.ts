import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { PACKAGE_ID, writeSamplePackage } from "../support/sample-package.ts";
import { startApi, type TestApi } from "../support/start-api.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.close());

verifies(
  "api.secrets",
  "never returns a secret or stores it in plain text, and shows its name, last characters and bindings",
  async () => {
    const value = "sk-verysecretvalue-9876";
    const response_texts: string[] = [];
    const call: TestApi["call"] = async (...args) => {
      const response = await api.call(...args);
      response_texts.push(response.text);
      return response;
    };
    const put = await call("PUT", "/v1/secrets/jira_token", { body: { value } });
    expect([put.status, put.json.last4, put.json.version]).toEqual([200, "9876", 1]);
    expect((await call("PUT", "/v1/secrets/jira_token", { body: { value } })).json.version).toBe(2);
    expect((await call("PUT", "/v1/secrets/short", { body: { value: "tiny" } })).json.last4).toBe("****");

    await call("POST", "/v1/plugin-packages", { body: { source: { folder: writeSamplePackage(api.home) } } });
    const bound = await call("POST", "/v1/plugin-bindings", {
      body: {
        package_id: PACKAGE_ID,
        package_version: "1.0.0",
        export_id: "search",
        secrets: { jira_token: put.json.ref },
      },
    });
    expect(bound.json.status).toBe("active");
    await call("POST", "/v1/invocations?wait", { body: { export_id: "search", input: {} } });
    expect(JSON.stringify(api.runner.requests[0]?.context)).toContain(value);

    const read = await call("GET", "/v1/secrets/jira_token");
    expect(read.json).toMatchObject({ name: "jira_token", last4: "9876", used_by: [bound.json.binding_id] });
    expect((await call("GET", "/v1/secrets")).json.items).toHaveLength(2);
    await call("GET", "/v1/audit");
    await call("GET", "/v1/invocations");
    await call("PUT", "/v1/secrets/jira_token", { body: { value, extra: value } });
    expect(response_texts.join("\n")).not.toContain(value);

    const used = await call("DELETE", "/v1/secrets/jira_token");
    expect([used.status, used.json.error.details.used_by]).toEqual([409, [bound.json.binding_id]]);
    expect((await call("DELETE", "/v1/secrets/short")).status).toBe(204);
    expect((await call("GET", "/v1/secrets/short")).status).toBe(404);

    const stored = readdirSync(api.home).filter((name) => name.startsWith("store.db"));
    expect(stored).not.toEqual([]);
    for (const name of stored) expect(readFileSync(join(api.home, name)).includes(value), name).toBe(false);
  },
);
