/** The routes of the marketplace: who may search a public registry, and which searches are valid. */
import { afterAll, beforeAll, expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { startApi, type TestApi } from "../support/start-api.ts";

const searches: string[] = [];
let api: TestApi;
beforeAll(async () => {
  api = await startApi({
    wrap: (kernel) => ({
      ...kernel,
      marketplace: {
        ...kernel.marketplace,
        searchServers(caller, text) {
          searches.push(text);
          return kernel.marketplace.searchServers(caller, text);
        },
      },
    }),
  });
});
afterAll(() => api.close());

async function createKey(role: string, scopes: string[]): Promise<string> {
  const { status, json } = await api.call("POST", "/v1/keys", { body: { name: role, role, scopes } });
  expect(status).toBe(201);
  return json.token;
}

const search = (query: string, token?: string) =>
  api.call("GET", `/v1/marketplace-servers${query}`, token === undefined ? {} : { token });

verifies(
  "api.marketplace",
  "lets operators search a public registry, but not guests or keys without the scope",
  async () => {
    const user = await createKey("user", ["packages:read"]);
    const found = await search("?search=weather%20%26%20more", user);
    expect([found.status, found.json]).toEqual([200, { items: [], registry: null }]);
    expect(searches.splice(0)).toEqual(["weather & more"]);
    const guest = await search("?search=weather", await createKey("guest", ["packages:read"]));
    expect([guest.status, guest.json.error.code]).toEqual([403, "policy.denied"]);
    searches.length = 0;
    const other = await search("?search=weather", await createKey("user", ["policy:read"]));
    expect([other.status, other.json.error.code]).toEqual([403, "auth.scope"]);
    for (const query of ["", "?search=", `?search=${"a".repeat(201)}`, "?search=a&more=b"]) {
      const invalid = await search(query);
      expect([invalid.status, invalid.json.error.code], query).toEqual([400, "request.invalid"]);
    }
    expect(searches).toEqual([]);
  },
);
