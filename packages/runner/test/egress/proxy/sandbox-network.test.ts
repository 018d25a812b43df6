import { expect, test } from "vitest";
import { sandboxNetwork } from "../../../src/egress/proxy/sandbox-network.ts";

const GATEWAY = { base_url: "http://127.0.0.1:7420" };
const none = { network: "none" as const, allowed_domains: [], gateway_api_scopes: [] };

test("has no listeners, hosts or variables without network and scope", () => {
  expect(sandboxNetwork(none, GATEWAY)).toEqual({ listeners: [], hosts: [], env: {}, gateway_url: null });
});

test("has only the gateway listener with a scope and without network", () => {
  expect(sandboxNetwork({ ...none, gateway_api_scopes: ["sessions:read"] }, GATEWAY)).toEqual({
    listeners: [{ role: "gateway", address: "127.0.0.1", port: 7420 }],
    hosts: [],
    env: {},
    gateway_url: "http://127.0.0.1:7420",
  });
});

test("with egress, has the proxy, an address for each exact name and one listener per port", () => {
  const network = sandboxNetwork({
    ...none,
    network: "egress",
    allowed_domains: [
      "api.acme.test",
      "db.acme.test:5432",
      "*.cdn.test",
      "*:8443",
      "10.0.0.1:8000",
      "odd.test:3128",
    ],
  });
  expect(network.listeners).toEqual([
    { role: "proxy", address: "127.0.0.1", port: 3128 },
    { role: "named", address: "0.0.0.0", port: 80 },
    { role: "named", address: "0.0.0.0", port: 443 },
    { role: "named", address: "0.0.0.0", port: 5432 },
    { role: "named", address: "0.0.0.0", port: 8000 },
  ]);
  expect(network.hosts).toEqual([
    { address: "127.64.0.1", name: "api.acme.test" },
    { address: "127.64.0.2", name: "db.acme.test" },
    { address: "127.64.0.3", name: "odd.test" },
  ]);
  expect(network.env).toMatchObject({ https_proxy: "http://127.0.0.1:3128", NODE_USE_ENV_PROXY: "1" });
  expect(network.env.NO_PROXY).toContain("127.0.0.1");
  expect(network.gateway_url).toBeNull();
});

test("keeps loopback names at their own addresses, for which clients use no proxy", () => {
  const allowed_domains = ["localhost:11434", "127.0.0.1:8000", "a.test:9"];
  const { hosts, listeners } = sandboxNetwork({ ...none, network: "egress", allowed_domains });
  expect(hosts).toEqual([
    { address: "127.0.0.1", name: "localhost" },
    { address: "127.0.0.1", name: "127.0.0.1" },
    { address: "127.64.0.3", name: "a.test" },
  ]);
  expect(listeners.map(({ port }) => port)).toEqual([3128, 9, 8000, 11434]);
});

test("leaves further ports to the proxy when there are too many", () => {
  const allowed_domains = Array.from({ length: 300 }, (_, index) => `a.test:${index + 5_000}`);
  expect(sandboxNetwork({ ...none, network: "egress", allowed_domains }).listeners).toHaveLength(129);
});

test("gives many names distinct addresses", () => {
  const allowed_domains = Array.from({ length: 300 }, (_, index) => `n${index}.test`);
  const { hosts } = sandboxNetwork({ ...none, network: "egress", allowed_domains });
  expect(new Set(hosts.map(({ address }) => address)).size).toBe(300);
  expect(hosts[299]).toEqual({ address: "127.64.1.44", name: "n299.test" });
});

test.each([
  ["http://localhost:7420", "127.0.0.1", 7420, "http://localhost:7420"],
  ["http://[::1]:9", "::1", 9, "http://[::1]:9"],
  ["https://gw.acme.test", "127.0.0.1", 7420, "http://127.0.0.1:7420"],
  ["http://10.0.0.5:8080/base", "127.0.0.1", 7420, "http://127.0.0.1:7420/base"],
  ["http://127.0.0.1:3128", "127.0.0.1", 7420, "http://127.0.0.1:7420"],
])("maps a gateway at %s", (base_url, address, port, url) => {
  const network = sandboxNetwork({ ...none, gateway_api_scopes: ["llm:invoke"] }, { base_url });
  expect(network.listeners).toEqual([{ role: "gateway", address, port }]);
  expect(network.gateway_url).toBe(url);
});
