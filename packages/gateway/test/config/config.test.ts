import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { codeOf } from "@backplane/contract";
import { loadConfig } from "@backplane/gateway";
import { expect, test } from "vitest";
import { toEgressOptions } from "../../src/config/egress.ts";

const createHome = (toml?: string) => {
  const home = mkdtempSync(join(tmpdir(), "backplane-config-"));
  if (toml !== undefined) writeFileSync(join(home, "backplane.toml"), toml);
  return home;
};

test("applies defaults, file, environment and flags in this order", () => {
  expect(loadConfig({ home: createHome(), env: {} }).listen).toMatchObject({
    host: "127.0.0.1",
    port: 7420,
    insecure: false,
  });
  const home = createHome('[listen]\nport = 1\nhosts = ["a.example"]\n');
  expect(loadConfig({ home, env: {} }).listen.port).toBe(1);
  expect(loadConfig({ home, env: { BACKPLANE_PORT: "2" } }).listen.port).toBe(2);
  const config = loadConfig({ home, env: { BACKPLANE_PORT: "2" }, flags: { port: 3 } });
  expect(config.listen).toMatchObject({ port: 3, hosts: ["a.example"] });
});

test("reads the limits of the agent host, and the vendors' variables for the first providers", () => {
  const { agent, provider_defaults } = loadConfig({ home: createHome(), env: {} });
  expect(agent).toMatchObject({
    approval_timeout_ms: 60_000,
    heartbeat_timeout_ms: 60_000,
    reap_interval_ms: 5_000,
    subagents: { max_depth: 5, max_wall_seconds: 300, max_steps: 20 },
  });
  expect(provider_defaults).toEqual({});
  const home = createHome("[agent]\nreap_interval_ms = 50\n[agent.subagents]\nmax_depth = 1\n");
  const env = { OPENAI_API_KEY: "sk-1", OPENAI_BASE_URL: "https://llm.example.com", ANTHROPIC_API_KEY: "" };
  const configured = loadConfig({ home, env });
  expect(configured.agent).toMatchObject({
    reap_interval_ms: 50,
    subagents: { max_depth: 1, max_steps: 20 },
  });
  expect(configured.provider_defaults).toEqual({
    "llm-openai": { api_key: "sk-1", base_url: "https://llm.example.com" },
  });
});

test("uses the home from the flag, the variable or the data folder, in this order", () => {
  const env = { BACKPLANE_HOME: "/tmp/backplane-none", XDG_DATA_HOME: "/tmp/data", HOME: "/tmp/me" };
  expect(loadConfig({ home: "/tmp/backplane-flag", env }).home).toBe("/tmp/backplane-flag");
  expect(loadConfig({ env }).home).toBe("/tmp/backplane-none");
  expect(loadConfig({ env: { ...env, BACKPLANE_HOME: "" } }).home).toBe("/tmp/data/backplane");
  expect(loadConfig({ env: { HOME: "/tmp/me" } }).home).toBe("/tmp/me/.local/share/backplane");
});

test.each([
  ["[listen]\nprot = 1\n", "prot"],
  ['[listen]\nport = "x"\n', "listen.port"],
  ["[limits]\nmax_running = 0\n", "limits.max_running"],
  ["[retention]\njobs_days = -1\n", "retention.jobs_days"],
  ['[sandbox]\nenabled = "no"\n', "sandbox.enabled"],
  ["[sandbox.limits]\nmemory_bytes = 1\n", "sandbox.limits.memory_bytes"],
  ['[sandbox.package_limits."acme/x"]\nmemory = 1\n', "sandbox.package_limits.acme/x"],
  ["[sandbox.limits]\nmemory = 1\n", "memory"],
  ['[egress]\nallow_private = ["ollama.lan"]\n', "egress.allow_private.0"],
  ['[egress]\nallow_private = ["*.lan:80"]\n', "egress.allow_private.0"],
  ['[egress]\nallow_private = ["ollama.lan:70000"]\n', "egress.allow_private.0"],
  ["[egress.limits]\nconnections = 0\n", "egress.limits.connections"],
  ["[egress.limits]\nbytes = 1\n", "bytes"],
  ['[policy]\nallowed_domains = ["https://a.example/"]\n', "policy.allowed_domains"],
  ['[orgs.acme]\nnetwork = "none"\n', "orgs.acme"],
  ['[orgs.org_acme]\nnetwork = "all"\n', "orgs.org_acme.network"],
  ['[projects.proj_x]\nnetwork = "none"\n', "projects.proj_x"],
  ['[projects."org_acme/proj_x"]\ngateway_api_scopes = ["everything"]\n', "gateway_api_scopes"],
  ["[listen\n", "backplane.toml"],
])("rejects %j with the key in the message", (toml, key) => {
  let thrown: unknown;
  try {
    loadConfig({ home: createHome(toml), env: {} });
  } catch (error) {
    thrown = error;
  }
  expect(codeOf(thrown)).toBe("config.invalid");
  expect((thrown as Error).message).toContain(key);
});

test("reports the key of a variable with an invalid value", () => {
  expect(() => loadConfig({ home: createHome(), env: { BACKPLANE_PORT: "80a" } })).toThrow(/listen\.port/);
});

test("lists variables that look like settings but are unknown", () => {
  const env = { BACKPLANE_PORT: "1", BACKPLANE_HOME: "/x", BACKPLANE_STORE_URI: "postgres://x", HOME: "/y" };
  expect(loadConfig({ home: createHome(), env }).unknown_variables).toEqual(["BACKPLANE_STORE_URI"]);
});

test("passes private destinations and limits to the runner unchanged", () => {
  const toml =
    '[egress]\nallow_private = ["ollama.lan:11434", "[fd00::1]:80"]\n[egress.limits]\nbytes_out = 10\n';
  const readEgress = (toml?: string) =>
    toEgressOptions(loadConfig({ home: createHome(toml), env: {} }).egress, () => null).egress;
  const operator_allows = ["ollama.lan:11434", "[fd00::1]:80"];
  expect(readEgress(toml)).toMatchObject({ operator_allows, limits: { bytes_out: 10 } });
  expect(readEgress()).toMatchObject({ operator_allows: [], limits: {} });
});

test("enables the sandbox unless it is explicitly turned off", () => {
  const readSandbox = (toml?: string, value?: string) =>
    loadConfig({ home: createHome(toml), env: { BACKPLANE_SANDBOX: value } }).sandbox;
  expect(readSandbox()).toEqual({
    enabled: true,
    limits: {},
    package_limits: {},
    prewarmed: 16,
    prewarmed_bytes: 536_870_912,
  });
  expect(readSandbox("[sandbox]\nenabled = false\n").enabled).toBe(false);
  expect(readSandbox("[sandbox]\nenabled = false\n", "1").enabled).toBe(true);
  expect(readSandbox("[sandbox.limits]\nprocesses = 32\n", "0")).toMatchObject({
    enabled: false,
    limits: { processes: 32 },
  });
  expect(() => readSandbox(undefined, "off")).toThrow(/sandbox\.enabled/);
});

test("reads retention in days", () => {
  const readRetention = (toml?: string) => loadConfig({ home: createHome(toml), env: {} }).retention;
  expect(readRetention()).toEqual({
    jobs_days: 7,
    dead_jobs_days: 30,
    events_days: 7,
    progress_days: 30,
    unused_package_days: 1,
    artifacts_days: 30,
  });
  expect(readRetention("[retention]\nevents_days = 0\nprogress_days = 0.5\n")).toMatchObject({
    events_days: 0,
    progress_days: 0.5,
  });
});

test("reads the limits of orgs and projects", () => {
  const { orgs, projects, policy } = loadConfig({
    home: createHome(`[policy]
mounts = false
[orgs.org_acme]
allowed_domains = ["*.acme.example"]
[projects."org_acme/proj_web"]
filesystem = "none"
gateway_api_scopes = ["runs:read"]
`),
    env: {},
  });
  expect(policy.mounts).toBe(false);
  expect(orgs).toEqual({ org_acme: { allowed_domains: ["*.acme.example"] } });
  expect(projects).toEqual({
    "org_acme/proj_web": { filesystem: "none", gateway_api_scopes: ["runs:read"] },
  });
});

test("refuses to require signatures from sources whose packages cannot be signed, and explains why", () => {
  const load = (origin: string) =>
    loadConfig({ home: createHome(`[packages]\nrequire_signature = ["oci", "${origin}"]`), env: {} });
  for (const origin of ["npm", "pypi", "image"]) {
    expect(() => load(origin)).toThrow(
      /packages\.require_signature\.1.*the gateway builds npm, pypi and image packages itself/,
    );
  }
  expect(() => load("npm")).toThrow(/require_provenance/);
  expect(load("folder").packages.require_signature).toEqual(["oci", "folder"]);
});
